// A random order of 0 … count - 1 that needs no memory and can be entered anywhere: a Feistel network (Luby & Rackoff,
// How to construct pseudorandom permutations) walked until it lands inside the range (Black & Rogaway, Ciphers with
// arbitrary finite domains).
#pragma once

#include <cstdint>

namespace modular {

/// The element at `index` of the order that `key` chooses. For 0 <= index < count.
int64_t permuted(int64_t index, int64_t count, uint64_t key);

}  // namespace modular
