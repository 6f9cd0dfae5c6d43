// Files in the safetensors format, assembled byte by byte, so that they may be invalid.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/mutate.h"

namespace modular::fuzz {

struct StoredBytes {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

using Metadata = std::map<std::string, std::string>;

/// Holds float32 or int64.
StoredBytes stored_bytes(const std::string& name, const at::Tensor& values);

std::string safetensors_file(const std::vector<StoredBytes>& tensors, const Metadata& metadata = {});

/// The file with other types, shapes and values, which its header describes correctly; then sometimes with a damaged
/// header, length or end. `names` are possible names of tensors.
std::string mutated_safetensors(std::vector<StoredBytes> tensors, const Metadata& metadata,
                                std::span<const std::string_view> names, Random& random);

/// Damages the beginning of a file, its header, or its end.
std::string mutated_safetensors_file(const std::string& file, std::span<const std::string_view> words, Random& random);

}  // namespace modular::fuzz
