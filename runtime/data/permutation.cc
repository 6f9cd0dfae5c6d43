#include "runtime/data/permutation.h"

#include <bit>
#include <cassert>

#include "runtime/parallel/random/mixed_bits.h"

namespace modular {

int64_t permuted(int64_t index, int64_t count, uint64_t key) {
  assert(index >= 0 && index < count);
  const int half_bits = (std::bit_width(static_cast<uint64_t>(count - 1)) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t next = left ^ (mixed(right ^ mixed(key + round)) & mask);
      left = right;
      right = next;
    }
    value = left << half_bits | right;
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

}  // namespace modular
