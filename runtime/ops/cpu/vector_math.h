// Helpers shared by the kernels: element types, and an exponential that compilers vectorize. Included only by files
// that are compiled once per instruction set, so everything has internal linkage (see kernels.cc).
#pragma once

#include <stdint.h>

#include "runtime/model/philox.h"
#include "runtime/ops/cpu/kernels.h"

/// The name of a table of kernels, which includes the instruction set that the file is compiled for.
#define MODULAR_JOIN(name, level) name##_##level
#define MODULAR_NAME(name, level) MODULAR_JOIN(name, level)

namespace modular::cpu {

namespace {

// Number of float32 elements in a vector. Compilers that consider a conversion expensive choose shorter vectors.
#if defined(__AVX512F__)
constexpr int64_t kVector = 16;
#elif defined(__AVX2__)
constexpr int64_t kVector = 8;
#else
constexpr int64_t kVector = 4;
#endif

inline float load(const float* p) { return *p; }
inline void store(float* p, float value) { *p = value; }
inline float round_to(const float*, float value) { return value; }

inline float load(const Bf16* p) { return __builtin_bit_cast(float, static_cast<uint32_t>(p->bits) << 16); }
// GCC would call a function here.
#if defined(__AVX512BF16__) && defined(__clang__) && __clang_major__ >= 17
inline uint16_t bf16_bits(float value) { return __builtin_bit_cast(uint16_t, static_cast<__bf16>(value)); }
#else
inline uint16_t bf16_bits(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;  // to nearest, ties to even
  return static_cast<uint16_t>(value == value ? rounded : 0x7fc0u);
}
#endif
inline void store(Bf16* p, float value) { p->bits = bf16_bits(value); }
inline float round_to(const Bf16*, float value) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bf16_bits(value)) << 16);
}

// exp of x between -87.3 and 88 within 2 units in the last place: 2^n * exp(r) by range reduction (Cody & Waite) and a
// polynomial on [-ln2/2, ln2/2] (Cephes' coefficients). Propagates NaN.
inline float exponential_in_range(float x) {
  const float shifted = x * 1.44269504088896341f + 12582912.0f;  // 1.5 * 2^23: the integer is in the low bits
  const float n = shifted - 12582912.0f;
  float r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const uint32_t power = (__builtin_bit_cast(uint32_t, shifted) << 23) + 0x3f800000u;
  return p * __builtin_bit_cast(float, power);
}

// exp of x <= 0. The result is 0 below the smallest normal number.
inline float exponential_of_negative(float x) { return x < -87.3f ? 0.0f : exponential_in_range(x); }

// exp, infinite above 88.
inline float exponential(float x) { return x > 88.0f ? __builtin_inff() : exponential_of_negative(x); }

inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

// Combines the lanes of a vector by halving, in few dependent, vectorizable steps.
template <class Combine>
inline float combined(float (&lanes)[kVector], Combine&& combine) {
#pragma GCC unroll 4
  for (int64_t half = kVector / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int64_t v = 0; v < half; ++v) lanes[v] = combine(lanes[v], lanes[v + half]);
  return lanes[0];
}

inline float reduce_sum(float (&lanes)[kVector]) {
  return combined(lanes, [](float a, float b) { return a + b; });
}

// One maximum per lane: compilers do not vectorize the reduction of a maximum that ignores NaNs.
template <class T>
inline float maximum(const T* values, int64_t count) {
  constexpr int64_t kAtOnce = 32;
  float lanes[kAtOnce];
  for (float& lane : lanes) lane = -__builtin_inff();
  int64_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
#pragma omp simd
    for (int64_t lane = 0; lane < kAtOnce; ++lane) {
      const float value = load(values + i + lane);
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
    }
  }
  for (; i < count; ++i) lanes[0] = load(values + i) > lanes[0] ? load(values + i) : lanes[0];
  float largest = lanes[0];
  for (const float lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

}  // namespace

// The Philox words that dropout compares with its threshold, in the layout of modular::DropoutRng. Included only by
// files that are compiled once per instruction set (see kernels.cc).

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
