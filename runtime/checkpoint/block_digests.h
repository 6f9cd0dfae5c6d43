// Digests of blocks of a file's tensors, which detect corruption on the way to disk and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "runtime/checkpoint/safetensors.h"

namespace modular {

inline constexpr const char* kDigests =
    "digests";  // name of the tensor with the digests, and of the metadata key that describes it
inline constexpr const char* kDigestsAre =
    "XXH3, 64 bits, of each 4 MiB of each other tensor, in the order of the file";
inline constexpr uint64_t kDigestedBlock = uint64_t{4} << 20;

/// Number of blocks of a tensor of `bytes` bytes.
int64_t count_blocks(uint64_t bytes);

/// Digest of block `block` of a tensor of `size` bytes.
int64_t compute_digest(const std::byte* bytes, uint64_t size, int64_t block);

/// Index of each tensor's first digest, and under the name "digests" the number of all digests.
std::map<std::string, int64_t, std::less<>> first_digests(
    const std::map<std::string, TensorHeader, std::less<>>& tensors);

}  // namespace modular
