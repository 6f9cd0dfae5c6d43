// How long the rows of files of examples are without their padding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "runtime/model/tensors.h"

namespace modular {

/// Up to the last position that counts.
struct UnpaddedLength {
  int64_t input = 0;   // of input_ids and what belongs to them
  int64_t target = 0;  // of a decoder's labels and what belongs to them; 0 where there is no decoder
};

/// Of each row of all files, in their order. A position counts where attention_mask does not say that it is padding, or
/// where it has a target. Reads the masks and the labels of all rows. Empty where files have no attention_mask.
std::vector<UnpaddedLength> row_lengths(const std::vector<std::filesystem::path>& files, bool has_decoder);

/// `batch` without the positions after `length`, which is rounded up to a multiple of 8.
Batch cut_to(Batch batch, const UnpaddedLength& length, bool has_decoder);

}  // namespace modular
