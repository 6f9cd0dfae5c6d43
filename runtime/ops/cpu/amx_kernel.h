// Matmuls by the tile unit of Intel's processors (Advanced Matrix Extensions), over plain memory. The unit
// multiplies bfloat16 and sums in float32. A float32 number is the sum of three bfloat16 ones, exactly, and six of the
// nine products of their parts give what a product in float32 gives (Henry, Tang & Heinecke, Leveraging the bfloat16
// Artificial Intelligence Datatype For Higher-Precision Computations).
#pragma once

#include <cstdint>

#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

/// A matrix whose element (i, k) is data[i * row + k * step]; k is the dimension that a product sums over. One of the
/// two strides is 1.
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
  float* sums;  // of bfloat16 deeper than a block of depth, for a part: [padded rows][kAmxSums] float32; else null
};

/// A part of a product's result.
struct MatrixPart {
  int64_t first_row, last_row, first_column, last_column;
};

/// Parts begin at multiples of this.
inline constexpr int64_t kAmxPanel = 32;

/// How much of the depth is multiplied at once, and bytes of scratch, aligned to 64, that each caller brings.
template <class T>
constexpr int64_t amx_depth_block() {
  return sizeof(T) == 4 ? 512 : 1024;
}
inline constexpr int64_t kAmxScratch = int64_t{3} << 19;
/// Columns of a product deeper than a block whose sums stand side by side.
inline constexpr int64_t kAmxSums = 640;

/// Writes a part of the result. What an element is does not depend on how a result is divided. Of float32, false where
/// an operand holds infinities, NaNs, or numbers that bfloat16 rounds to infinity: what was written is then of no use.
bool amx_multiply(const GemmProblem<float>& product, const MatrixPart& part, char* scratch);
bool amx_multiply(const GemmProblem<Bf16>& product, const MatrixPart& part, char* scratch);

}  // namespace modular::cpu
