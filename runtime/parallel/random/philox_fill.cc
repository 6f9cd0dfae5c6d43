#include "runtime/parallel/random/philox_fill.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/model/philox.h"

namespace modular {
namespace {

template <class... Rest>
inline float polynomial(float at, float highest, Rest... rest) {
  float sum = highest;
  ((sum = sum * at + rest), ...);
  return sum;
}

/// Logarithm of normal floats > 0 (Moshier, Cephes). libm's logarithm differs between libraries and CPUs.
inline float logarithm(float x) {
  constexpr int32_t kRootOfHalf = 0x3f3504f3;
  const auto bits = std::bit_cast<int32_t>(x);
  const int32_t power = (bits - kRootOfHalf) >> 23;
  const auto exponent = static_cast<float>(power);
  const float y = std::bit_cast<float>(bits - (power << 23)) - 1.0F, square = y * y;
  const float series =
      polynomial(y, 7.0376836292e-2F, -1.1514610310e-1F, 1.1676998740e-1F, -1.2420140846e-1F, 1.4249322787e-1F,
                 -1.6668057665e-1F, 2.0000714765e-1F, -2.4999993993e-1F, 3.3333331174e-1F);
  // log(2) is split into its high bits, whose product with the exponent is exact, and the rest.
  const float small = series * y * square + exponent * -2.12194440e-4F - 0.5F * square;
  return y + small + exponent * 0.693359375F;
}

/// Returns the deviation x > 0 for which [-x, x] has probability `within` and the rest `beyond` = 1 - within, both
/// given to full precision. Giles' form (Approximating the erfinv function), fitted up to 6.4 deviations with a
/// relative error of 1e-7.
inline float deviation(float within, float beyond) {
  const float w = -logarithm(beyond * (2.0F - beyond));
  const float middle = polynomial(w - 2.5F, 4.03533988e-8F, 4.86102238e-7F, -4.99055022e-6F, -6.21797426e-6F,
                                  3.09150142e-4F, -1.77301024e-3F, -5.90817071e-3F, 3.48802656e-1F, 2.12331367F);
  const float tail =
      polynomial(std::sqrt(w) - 3.0F, 6.24534659e-5F, -2.49904959e-4F, -1.6141079e-5F, 1.85535476e-3F, -5.07471617e-3F,
                 8.14807136e-3F, -1.08108679e-2F, 1.33421523e-2F, 1.41658306F, 4.00643444F);
  return within * (w < 5.0F ? middle : tail);
}

inline float normal_number(const FloatDistribution& from, uint32_t word) {
  constexpr int32_t kMost = 0x7fffffff;
  const auto rank = static_cast<int32_t>(word & kMost);
  const float beyond = (static_cast<float>(rank) + 0.5F) * 0x1p-31F;
  const float within = (static_cast<float>(kMost - rank) + 0.5F) * 0x1p-31F;
  const float found = deviation(within * from.within, from.beyond + beyond * from.within);
  const float limited = found < from.cutoff ? found : from.cutoff;
  const uint32_t sign = word & 0x80000000U;
  return from.first + from.second * std::bit_cast<float>(std::bit_cast<uint32_t>(limited) ^ sign);
}

inline float uniform_number(const FloatDistribution& from, uint32_t word) {
  return from.first + from.second * (static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24F);
}

/// Elements 64 * group … 64 * group + 63.
inline void fill_group(const FloatDistribution& distribution, uint64_t key, uint64_t group, float* values) {
  const FloatDistribution from = distribution;
  const uint64_t counter = 16 * group;
  uint32_t words[kPhiloxWords];
  philox_words(key, {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}, words);
  if (from.normal) {
#pragma omp simd
    for (int64_t i = 0; i < kPhiloxWords; ++i) values[i] = normal_number(from, words[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < kPhiloxWords; ++i) values[i] = uniform_number(from, words[i]);
  }
}

}  // namespace

void philox_fill(const FloatDistribution& from, uint64_t key, int64_t first, int64_t count, float* values) {
  const int64_t end = first + count;
  for (int64_t group = first / kPhiloxWords; group * kPhiloxWords < end; ++group) {
    const int64_t start = group * kPhiloxWords, stop = start + kPhiloxWords;
    if (start >= first && stop <= end) {
      fill_group(from, key, static_cast<uint64_t>(group), values + (start - first));
      continue;
    }
    float filled[kPhiloxWords];
    fill_group(from, key, static_cast<uint64_t>(group), filled);
    const int64_t begin = std::max(start, first);
    std::copy(filled + (begin - start), filled + (std::min(stop, end) - start), values + (begin - first));
  }
}

}  // namespace modular
