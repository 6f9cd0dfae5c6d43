// Compiled once per instruction set; see kernels.cc for the restrictions this implies.
#include "runtime/ops/cpu/skinny_gemm_kernel.h"

#include "runtime/ops/cpu/vector_math.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace modular::cpu {
namespace {

// A tile of sums takes most of the registers: kTileRows rows of x by kTileOutputs rows of the weight.
constexpr int64_t kTileRows = 4, kTileOutputs = kVector == 16 ? 6 : 2;
static_assert(kSkinnyStep % (2 * kVector) == 0);

using Vector = float __attribute__((vector_size(kVector * sizeof(float)), aligned(sizeof(float)), may_alias));
using Bits = uint32_t __attribute__((vector_size(kVector * sizeof(float)), aligned(2), may_alias));

inline Vector vector_at(const float* p) { return *reinterpret_cast<const Vector*>(p); }

// The first or second of two vectors from a row of the weight. For bfloat16 they hold the elements at even and at odd
// indices, each of which is half of a 32-bit word.
template <bool second>
inline Vector half_at(const float* p) {
  return vector_at(p + (second ? kVector : 0));
}
template <bool second>
inline Vector half_at(const Bf16* p) {
  const Bits bits = *reinterpret_cast<const Bits*>(p);
  return reinterpret_cast<Vector>(second ? bits & 0xffff0000u : bits << 16);
}

// Packs rows of x in the element order of half_at().
template <class T>
void pack(const T* x, int64_t x_row, float* packed, int64_t rows, int64_t features) {
  for (int64_t row = 0; row < rows; ++row, x += x_row, packed += features)
    for (int64_t first = 0; first < features; first += 2 * kVector)
      for (int64_t i = 0; i < kVector; ++i) {
        const bool is_half = sizeof(T) == 2;
        packed[first + i] = load(x + first + (is_half ? 2 * i : i));
        packed[first + kVector + i] = load(x + first + (is_half ? 2 * i + 1 : kVector + i));
      }
}

inline float reduce_sum(const Vector& value) {
  float lanes[kVector];
  *reinterpret_cast<Vector*>(lanes) = value;
  return reduce_sum(lanes);
}

#if defined(__AVX512F__)
// Reduces eight vectors at once, each in the order of reduce_sum(), with a quarter of the shuffles.
inline void reduce_sums(const Vector (&values)[8], float (&sums)[8]) {
  const auto at = [&](int64_t i) { return _mm512_loadu_ps(reinterpret_cast<const float*>(&values[i])); };
  __m512 pairs[4], fours[2];
#pragma GCC unroll 4
  for (int64_t i = 0; i < 4; ++i)
    pairs[i] = _mm512_add_ps(_mm512_shuffle_f32x4(at(2 * i), at(2 * i + 1), 0x44),
                             _mm512_shuffle_f32x4(at(2 * i), at(2 * i + 1), 0xee));
#pragma GCC unroll 2
  for (int64_t i = 0; i < 2; ++i)
    fours[i] = _mm512_add_ps(_mm512_shuffle_f32x4(pairs[2 * i], pairs[2 * i + 1], 0x88),
                             _mm512_shuffle_f32x4(pairs[2 * i], pairs[2 * i + 1], 0xdd));
  const __m512 eights =
      _mm512_add_ps(_mm512_shuffle_ps(fours[0], fours[1], 0x44), _mm512_shuffle_ps(fours[0], fours[1], 0xee));
  alignas(64) float doubled[16];  // each sum twice: 0 0 4 4 1 1 5 5 …
  _mm512_store_ps(doubled, _mm512_add_ps(eights, _mm512_permute_ps(eights, 0xb1)));
#pragma GCC unroll 8
  for (int64_t i = 0; i < 8; ++i) sums[i] = doubled[i % 4 * 4 + i / 4 * 2];
}
#endif

template <bool second, int64_t rows, int64_t outputs, class T>
inline void add_half(const float* packed, const T* weight, int64_t features, Vector (&sums)[rows][outputs]) {
  Vector x[rows];
#pragma GCC unroll 8
  for (int64_t m = 0; m < rows; ++m) x[m] = vector_at(packed + m * features + (second ? kVector : 0));
#pragma GCC unroll 8
  for (int64_t n = 0; n < outputs; ++n) {
    const Vector factor = half_at<second>(weight + n * features);
#pragma GCC unroll 8
    for (int64_t m = 0; m < rows; ++m) sums[m][n] += x[m] * factor;
  }
}

// Prefetches the weight rows of the next tile, which are beyond the reach of hardware prefetchers.
template <int64_t outputs, class T>
inline void prefetch_next(const T* weight, int64_t features) {
  constexpr int64_t kLine = 64 / sizeof(T);
#pragma GCC unroll 8
  for (int64_t n = outputs; n < 2 * outputs; ++n)
#pragma GCC unroll 2
    for (int64_t i = 0; i < 2 * kVector; i += kLine) __builtin_prefetch(weight + n * features + i, 0, 2);
}

template <int64_t rows, int64_t outputs, class T>
inline void tile(const float* packed, const T* weight, T* y, int64_t y_row, int64_t features, bool prefetches = false) {
  Vector sums[rows][outputs] = {};
  for (int64_t k = 0; k < features; k += 2 * kVector) {
    if (prefetches) prefetch_next<outputs>(weight + k, features);
    add_half<false>(packed + k, weight + k, features, sums);
    add_half<true>(packed + k, weight + k, features, sums);
  }
#if defined(__AVX512F__)
  if constexpr (rows == 4 && outputs % 2 == 0) {
#pragma GCC unroll 8
    for (int64_t n = 0; n < outputs; n += 2) {
      const Vector both[8] = {sums[0][n],     sums[1][n],     sums[2][n],     sums[3][n],
                              sums[0][n + 1], sums[1][n + 1], sums[2][n + 1], sums[3][n + 1]};
      float reduced[8];
      reduce_sums(both, reduced);
#pragma GCC unroll 8
      for (int64_t i = 0; i < 8; ++i) store(y + i % 4 * y_row + n + i / 4, reduced[i]);
    }
    return;
  }
#endif
#pragma GCC unroll 8
  for (int64_t m = 0; m < rows; ++m)
#pragma GCC unroll 8
    for (int64_t n = 0; n < outputs; ++n) store(y + m * y_row + n, reduce_sum(sums[m][n]));
}

// Processes all rows for some outputs before reading the weight rows of the next outputs.
template <int64_t outputs, class T>
inline void multiply_outputs(const float* packed, const T* weight, T* y, int64_t y_row, int64_t rows,
                             int64_t features) {
  int64_t m = 0;
  for (; m + kTileRows <= rows; m += kTileRows)
    tile<kTileRows, outputs>(packed + m * features, weight, y + m * y_row, y_row, features, m == 0);
  if (m + 2 <= rows) {
    tile<2, outputs>(packed + m * features, weight, y + m * y_row, y_row, features);
    m += 2;
  }
  if (m < rows) tile<1, outputs>(packed + m * features, weight, y + m * y_row, y_row, features);
}

template <class T>
void multiply(const float* packed, const T* weight, T* y, int64_t y_row, int64_t rows, int64_t features, int64_t first,
              int64_t last) {
  constexpr int64_t kSingleRowOutputs = 4;  // outputs per tile of a single row
  int64_t n = first;
  if (rows == 1)
    for (; n + kSingleRowOutputs <= last; n += kSingleRowOutputs)
      tile<1, kSingleRowOutputs>(packed, weight + n * features, y + n, y_row, features, true);
  for (; n + kTileOutputs <= last; n += kTileOutputs)
    multiply_outputs<kTileOutputs>(packed, weight + n * features, y + n, y_row, rows, features);
  for (; n < last; ++n) multiply_outputs<1>(packed, weight + n * features, y + n, y_row, rows, features);
}

}  // namespace

extern const SkinnyGemmKernels<float> MODULAR_NAME(float_skinny_gemm, MODULAR_LEVEL);
extern const SkinnyGemmKernels<Bf16> MODULAR_NAME(bf16_skinny_gemm, MODULAR_LEVEL);
const SkinnyGemmKernels<float> MODULAR_NAME(float_skinny_gemm, MODULAR_LEVEL) = {pack<float>, multiply<float>};
const SkinnyGemmKernels<Bf16> MODULAR_NAME(bf16_skinny_gemm, MODULAR_LEVEL) = {pack<Bf16>, multiply<Bf16>};

}  // namespace modular::cpu
