// The words that dropout compares with its threshold: Philox4x32-10 (Salmon et al., Random123) over sixteen counters at
// a time, as modular::DropoutDraw lays them out. Included only by files that are compiled once for each instruction set
// (see kernels.cc).
#pragma once

#include <stdint.h>

#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {
namespace {

constexpr int64_t kWords = 64;  // of sixteen counters: as many columns

// The words of columns 64 * group … 64 * group + 63 of a row.
inline void draw_words(const Drop& drop, uint32_t row, uint32_t group, uint32_t* words) {
#pragma omp simd
  for (uint32_t lane = 0; lane < 16; ++lane) {
    uint32_t counter0 = 16 * group + lane, counter1 = row, counter2 = drop.sample, counter3 = drop.plane;
    uint32_t key0 = drop.key[0], key1 = drop.key[1];
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

// Calls apply(column, words, count) for the columns [first, last) of a row, in pieces of which words[i] belongs to
// column + i.
template <class Apply>
inline void for_each_word(const Drop& drop, uint32_t row, int64_t first, int64_t last, Apply&& apply) {
  for (int64_t group = first / kWords; group * kWords < last; ++group) {
    uint32_t words[kWords];
    draw_words(drop, row, static_cast<uint32_t>(group), words);
    const int64_t start = group * kWords, begin = start < first ? first : start,
                  end = start + kWords < last ? start + kWords : last;
    apply(begin, words + (begin - start), end - begin);
  }
}

}  // namespace
}  // namespace modular::cpu
