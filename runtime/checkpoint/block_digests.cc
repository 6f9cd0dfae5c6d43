#include "runtime/checkpoint/block_digests.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace modular {

int64_t count_blocks(uint64_t bytes) { return static_cast<int64_t>((bytes + kDigestedBlock - 1) / kDigestedBlock); }

int64_t compute_digest(const std::byte* bytes, uint64_t size, int64_t block) {
  const uint64_t begin = static_cast<uint64_t>(block) * kDigestedBlock;
  return static_cast<int64_t>(XXH3_64bits(bytes + begin, std::min(kDigestedBlock, size - begin)));
}

std::map<std::string, int64_t, std::less<>> first_digests(
    const std::map<std::string, TensorHeader, std::less<>>& tensors) {
  std::vector<std::tuple<uint64_t, uint64_t, std::string>> in_file;
  for (const auto& [name, header] : tensors)
    if (name != kDigests) in_file.emplace_back(header.begin, header.end, name);
  std::ranges::sort(in_file);
  std::map<std::string, int64_t, std::less<>> first;
  int64_t count = 0;
  for (const auto& [begin, end, name] : in_file) {
    first.emplace(name, count);
    count += count_blocks(end - begin);
  }
  first.emplace(kDigests, count);
  return first;
}

}  // namespace modular
