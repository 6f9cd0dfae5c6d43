// Lengths of example rows without their padding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "runtime/model/tensors.h"

namespace modular {

/// One past the last position that counts.
struct UnpaddedLength {
  int64_t input = 0;   // input_ids and tensors of the same length
  int64_t target = 0;  // decoder labels and tensors of the same length; 0 without a decoder
};

/// Length of each row of all files, in order. A position counts if attention_mask does not mark it as padding, or if it
/// has a target. Reads masks and labels of all rows. Empty if the files have no attention_mask.
std::vector<UnpaddedLength> row_lengths(const std::vector<std::filesystem::path>& files, bool has_decoder);

/// `batch` cut to `length` positions, rounded up to a multiple of 8.
Batch cut_to(Batch batch, const UnpaddedLength& length, bool has_decoder);

}  // namespace modular
