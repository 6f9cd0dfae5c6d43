// Products of a few rows with a layer's weight, as a step of generation makes them: their time is that of reading the
// weight, which they do once, as it is in memory.
#pragma once

#include <cstdint>

#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

/// Features are a multiple of this, and rows at most so many.
inline constexpr int64_t kNarrowStep = 32, kNarrowRows = 16;

template <class T>
struct NarrowKernels {
  /// x [rows, features], as `multiply` reads it, in kNarrowRows * features floats, aligned to 64 bytes.
  void (*pack)(const T* x, int64_t x_row, float* packed, int64_t rows, int64_t features);
  /// y [rows, …] = packed weightᵀ, for the outputs [first, last) of weight [outputs, features]; rows of y are `y_row`
  /// elements apart. Sums are in float32.
  void (*multiply)(const float* packed, const T* weight, T* y, int64_t y_row, int64_t rows, int64_t features,
                   int64_t first, int64_t last);
};

/// The kernels for this processor. T is float or Bf16.
template <class T>
const NarrowKernels<T>& narrow_kernels();

}  // namespace modular::cpu
