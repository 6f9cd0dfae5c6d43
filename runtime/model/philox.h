// Philox4x32-10 on CPUs (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3), sixteen counters at a time. Some
// of the files that include it are compiled once per instruction set (runtime/ops/cpu/kernels.cc). Hence it is plain
// C++, and its functions have internal linkage.
#pragma once

#include <stdint.h>

namespace modular {
namespace {

constexpr int64_t kPhiloxWords = 64;

struct PhiloxCounter {
  uint32_t first, second, third, fourth;
};

// Writes the words of the counters (start.first + lane, start.second, start.third, start.fourth) for lanes 0 … 15: the
// first words of all lanes, then the second words, and so on.
inline void philox_words(uint64_t key, const PhiloxCounter& start, uint32_t* words) {
  const PhiloxCounter from = start;
#pragma omp simd
  for (uint32_t lane = 0; lane < 16; ++lane) {
    uint32_t counter0 = from.first + lane, counter1 = from.second, counter2 = from.third, counter3 = from.fourth;
    uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const uint64_t even = uint64_t{0xD2511F53} * counter0, odd = uint64_t{0xCD9E8D57} * counter2;
      counter0 = static_cast<uint32_t>(odd >> 32) ^ counter1 ^ key0;
      counter1 = static_cast<uint32_t>(odd);
      counter2 = static_cast<uint32_t>(even >> 32) ^ counter3 ^ key1;
      counter3 = static_cast<uint32_t>(even);
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    words[lane] = counter0;
    words[16 + lane] = counter1;
    words[32 + lane] = counter2;
    words[48 + lane] = counter3;
  }
}

}  // namespace
}  // namespace modular
