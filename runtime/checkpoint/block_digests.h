// Digests of blocks of a file's tensors, by which damage on its way to the disk and back is noticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "runtime/checkpoint/safetensors.h"

namespace modular {

inline constexpr const char* kDigests = "digests";  // the tensor, and the metadata that says what it is
inline constexpr const char* kDigestsAre =
    "XXH3, 64 bits, of each 4 MiB of each other tensor, in the order of the file";
inline constexpr uint64_t kDigestedBlock = uint64_t{4} << 20;

/// Blocks of a tensor of so many bytes.
int64_t count_blocks(uint64_t bytes);

/// The digest of block `block` of `size` bytes.
int64_t compute_digest(const std::byte* bytes, uint64_t size, int64_t block);

/// Which digest is the first of each tensor, and under the name "digests" how many there are.
std::map<std::string, int64_t, std::less<>> first_digests(
    const std::map<std::string, TensorHeader, std::less<>>& tensors);

}  // namespace modular
