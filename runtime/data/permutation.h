// A random order of 0 … count - 1 with random access and without memory: a Feistel network (Luby & Rackoff, How to
// construct pseudorandom permutations), iterated until the result is inside the range (Black & Rogaway, Ciphers with
// arbitrary finite domains).
#pragma once

#include <cstdint>

namespace modular {

/// Element at `index` of the order given by `key`, for 0 <= index < count.
int64_t permuted(int64_t index, int64_t count, uint64_t key);

}  // namespace modular
