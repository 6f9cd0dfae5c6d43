// The Philox words that dropout compares with its threshold, in the layout of modular::DropoutRng. Included only by
// files that are compiled once per instruction set (see kernels.cc).
#pragma once

#include "runtime/model/philox.h"
#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {
namespace {

// Calls apply(column, words, count) for the columns [first, last) of a row in pieces; words[i] belongs to column + i.
template <class Apply>
inline void for_each_word(const Drop& drop, uint32_t row, int64_t first, int64_t last, Apply&& apply) {
  for (int64_t group = first / kPhiloxWords; group * kPhiloxWords < last; ++group) {
    uint32_t words[kPhiloxWords];
    philox_words(drop.key[0] | static_cast<uint64_t>(drop.key[1]) << 32,
                 {16 * static_cast<uint32_t>(group), row, drop.sample, drop.plane}, words);
    const int64_t start = group * kPhiloxWords, begin = start < first ? first : start,
                  end = start + kPhiloxWords < last ? start + kPhiloxWords : last;
    apply(begin, words + (begin - start), end - begin);
  }
}

}  // namespace
}  // namespace modular::cpu
