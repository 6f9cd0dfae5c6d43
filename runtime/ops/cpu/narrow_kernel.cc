// Compiled once for each instruction set; see kernels.cc for what that forbids.
#include "runtime/ops/cpu/narrow_kernel.h"

#include "runtime/ops/cpu/vector_math.h"

namespace modular::cpu {
namespace {

// A tile of sums takes most of the registers: kTileRows rows of x by kTileOutputs of the weight.
#if defined(__AVX512F__)
constexpr int64_t kVector = 16, kTileRows = 8, kTileOutputs = 3;
#elif defined(__AVX2__)
constexpr int64_t kVector = 8, kTileRows = 4, kTileOutputs = 2;
#else
constexpr int64_t kVector = 4, kTileRows = 4, kTileOutputs = 2;
#endif
static_assert(kNarrowStep % (2 * kVector) == 0);

using Vector = float __attribute__((vector_size(kVector * sizeof(float)), aligned(sizeof(float)), may_alias));
using Bits = uint32_t __attribute__((vector_size(kVector * sizeof(float)), aligned(2), may_alias));

inline Vector vector_at(const float* p) { return *reinterpret_cast<const Vector*>(p); }

// Two vectors of a row of the weight. Of bfloat16 they are the elements at even and at odd places, each of which is
// half of a word of 32 bits.
struct Pair {
  Vector one, other;
};
inline Pair load_pair(const float* p) { return {vector_at(p), vector_at(p + kVector)}; }
inline Pair load_pair(const Bf16* p) {
  const Bits bits = *reinterpret_cast<const Bits*>(p);
  return {reinterpret_cast<Vector>(bits << 16), reinterpret_cast<Vector>(bits & 0xffff0000u)};
}

// Rows of x in the order of these pairs.
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

inline float sum_of(Vector value) {
  float lanes[kVector];
  *reinterpret_cast<Vector*>(lanes) = value;
#pragma GCC unroll 4
  for (int64_t half = kVector / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

template <int64_t rows, int64_t outputs, class T>
inline void tile(const float* packed, const T* weight, T* y, int64_t y_row, int64_t features) {
  Vector sums[rows][outputs] = {};
  for (int64_t k = 0; k < features; k += 2 * kVector) {
    Pair factors[outputs];
#pragma GCC unroll 8
    for (int64_t n = 0; n < outputs; ++n) factors[n] = load_pair(weight + n * features + k);
#pragma GCC unroll 8
    for (int64_t m = 0; m < rows; ++m) {
      const Vector one = vector_at(packed + m * features + k), other = vector_at(packed + m * features + k + kVector);
#pragma GCC unroll 8
      for (int64_t n = 0; n < outputs; ++n) {
        sums[m][n] += one * factors[n].one;
        sums[m][n] += other * factors[n].other;
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t m = 0; m < rows; ++m)
#pragma GCC unroll 8
    for (int64_t n = 0; n < outputs; ++n) store(y + m * y_row + n, sum_of(sums[m][n]));
}

// All rows meet some outputs before the next ones are read.
template <int64_t outputs, class T>
inline void multiply_outputs(const float* packed, const T* weight, T* y, int64_t y_row, int64_t rows,
                             int64_t features) {
  int64_t m = 0;
  for (; m + kTileRows <= rows; m += kTileRows)
    tile<kTileRows, outputs>(packed + m * features, weight, y + m * y_row, y_row, features);
  if (kTileRows > 4 && m + 4 <= rows) {
    tile<4, outputs>(packed + m * features, weight, y + m * y_row, y_row, features);
    m += 4;
  }
  if (m + 2 <= rows) {
    tile<2, outputs>(packed + m * features, weight, y + m * y_row, y_row, features);
    m += 2;
  }
  if (m < rows) tile<1, outputs>(packed + m * features, weight, y + m * y_row, y_row, features);
}

template <class T>
void multiply(const float* packed, const T* weight, T* y, int64_t y_row, int64_t rows, int64_t features, int64_t first,
              int64_t last) {
  constexpr int64_t kAlone = 4;  // outputs of a tile of one row
  int64_t n = first;
  if (rows == 1)
    for (; n + kAlone <= last; n += kAlone) tile<1, kAlone>(packed, weight + n * features, y + n, y_row, features);
  for (; n + kTileOutputs <= last; n += kTileOutputs)
    multiply_outputs<kTileOutputs>(packed, weight + n * features, y + n, y_row, rows, features);
  for (; n < last; ++n) multiply_outputs<1>(packed, weight + n * features, y + n, y_row, rows, features);
}

}  // namespace

extern const NarrowKernels<float> MODULAR_NAME(float_narrow, MODULAR_LEVEL);
extern const NarrowKernels<Bf16> MODULAR_NAME(bf16_narrow, MODULAR_LEVEL);
const NarrowKernels<float> MODULAR_NAME(float_narrow, MODULAR_LEVEL) = {pack<float>, multiply<float>};
const NarrowKernels<Bf16> MODULAR_NAME(bf16_narrow, MODULAR_LEVEL) = {pack<Bf16>, multiply<Bf16>};

}  // namespace modular::cpu
