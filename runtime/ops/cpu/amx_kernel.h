// GEMM on AMX (Advanced Matrix Extensions, the tile unit of Intel CPUs) over plain memory. AMX multiplies bfloat16 and
// accumulates in float32. A float32 number is exactly the sum of three bfloat16 numbers, and six of the nine products
// of these parts match a float32 product (Henry, Tang & Heinecke, Leveraging the bfloat16 Artificial Intelligence
// Datatype For Higher-Precision Computations).
#pragma once

#include <cstdint>

#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

/// A matrix whose element (i, k) is data[i * row + k * step]; k is the reduction dimension. One of the two strides
/// is 1.
template <class T>
struct MatrixOperand {
  const T* data;
  int64_t row, step;
};

/// result (i, j) = bias (j) + the sum over k of left (i, k) * right (j, k).
template <class T>
struct GemmProblem {
  int64_t rows, columns, depth;
  MatrixOperand<T> left, right;
  const float* bias;  // [columns], or null
  T* result;          // rows of [columns], `result_row` apart
  int64_t result_row;
  float* sums;  // for a part of a bfloat16 GEMM deeper than a depth block: [padded rows][kAmxSums]; else null
};

/// A part of a GEMM's result.
struct MatrixPart {
  int64_t first_row, last_row, first_column, last_column;
};

/// Parts begin at multiples of this.
inline constexpr int64_t kAmxPanel = 32;

/// Size of a depth block.
template <class T>
constexpr int64_t amx_depth_block() {
  return sizeof(T) == 4 ? 512 : 1024;
}
/// Bytes of scratch memory, aligned to 64, that each caller provides.
inline constexpr int64_t kAmxScratch = int64_t{3} << 19;
/// Columns of intermediate sums per pass of a GEMM deeper than a block.
inline constexpr int64_t kAmxSums = 640;

/// Writes a part of the result. Elements do not depend on how the result is divided. For float32, returns false if an
/// operand holds infinities, NaNs, or numbers that bfloat16 rounds to infinity; the written values are then invalid.
bool amx_multiply(const GemmProblem<float>& problem, const MatrixPart& part, char* scratch);
bool amx_multiply(const GemmProblem<Bf16>& problem, const MatrixPart& part, char* scratch);

}  // namespace modular::cpu
