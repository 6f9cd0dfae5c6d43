// Skinny GEMM: a few rows times a layer's weight, as in a generation step. Its time is dominated by reading the weight,
// which it does once, in the weight's memory order.
#pragma once

#include <cstdint>

#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

/// Features must be a multiple of the first; the second is the maximum number of rows.
inline constexpr int64_t kSkinnyStep = 32, kSkinnyRows = 16;

template <class T>
struct SkinnyGemmKernels {
  /// Packs x [rows, features] for `multiply` into kSkinnyRows * features floats, aligned to 64 bytes.
  void (*pack)(const T* x, int64_t x_row, float* packed, int64_t rows, int64_t features);
  /// y [rows, …] = packed weightᵀ for the outputs [first, last) of weight [outputs, features]; rows of y are `y_row`
  /// elements apart. Accumulates in float32.
  void (*multiply)(const float* packed, const T* weight, T* y, int64_t y_row, int64_t rows, int64_t features,
                   int64_t first, int64_t last);
};

/// The kernels for this CPU. T is float or Bf16.
template <class T>
const SkinnyGemmKernels<T>& skinny_gemm_kernels();

}  // namespace modular::cpu
