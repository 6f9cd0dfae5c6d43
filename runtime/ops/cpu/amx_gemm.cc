// AMX GEMM on tensors: the division of a result over threads.
#include "runtime/ops/cpu/amx_gemm.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <memory>

#include "runtime/ops/cpu/amx_kernel.h"
#include "runtime/ops/cpu/parallel.h"
#include "runtime/ops/cpu/tensors.h"

namespace modular::cpu {
#ifdef MODULAR_HAS_AMX
namespace {

char* scratch() {
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  thread_local const std::unique_ptr<char, Free> memory(static_cast<char*>(std::aligned_alloc(64, kAmxScratch)));
  TORCH_CHECK(memory, "cannot allocate the panels of a GEMM");
  return memory.get();
}

int64_t panels(int64_t count) { return (count + kAmxPanel - 1) / kAmxPanel; }

/// Division of rows and columns over threads that minimizes packing.
struct Division {
  int64_t row_parts = 1, column_parts = 1;
};

Division divide(int64_t rows, int64_t columns, int64_t threads) {
  Division best;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t row_parts = 1; row_parts <= threads; ++row_parts) {
    if (threads % row_parts != 0) continue;
    const int64_t column_parts = threads / row_parts;
    const int64_t row_panels = (panels(rows) + row_parts - 1) / row_parts;
    const int64_t column_panels = (panels(columns) + column_parts - 1) / column_parts;
    // The work of the largest part first, then the panels that it packs.
    const int64_t cost = row_panels * column_panels * 1024 + row_panels + column_panels;
    if (cost < least) least = cost, best = {row_parts, column_parts};
  }
  return best;
}

/// Matrix `index` of a batch, or the only matrix. `row_dimension` is the dimension of rows.
template <class T>
MatrixOperand<T> operand(const at::Tensor& matrices, int64_t index, int64_t row_dimension) {
  const T* const first = read<T>(matrices) + (matrices.dim() == 3 ? index * matrices.stride(0) : 0);
  return {first, matrices.stride(row_dimension), matrices.stride(-3 - row_dimension)};
}

/// Returns whether both operands are finite, as far as that was checked.
template <class T>
bool multiply(const at::Tensor& left, const at::Tensor& right, const at::Tensor& bias, const at::Tensor& result) {
  const int64_t matrices = left.dim() == 3 ? left.size(0) : 1;
  const int64_t rows = left.size(-2), columns = right.size(-1), depth = left.size(-1);
  const auto make_problem = [&](int64_t index, float* sums) {
    return GemmProblem<T>{.rows = rows,
                          .columns = columns,
                          .depth = depth,
                          .left = operand<T>(left, index, -2),
                          .right = operand<T>(right, index, -1),
                          .bias = bias.defined() ? read<float>(bias) : nullptr,
                          .result = write<T>(result) + index * rows * columns,
                          .result_row = columns,
                          .sums = sums};
  };
  const Division division = divide(rows, columns, std::max<int64_t>(1, parallel_width() / matrices));
  const int64_t parts = division.row_parts * division.column_parts;
  const int64_t rows_each = (panels(rows) + division.row_parts - 1) / division.row_parts * kAmxPanel;
  const int64_t columns_each = (panels(columns) + division.column_parts - 1) / division.column_parts * kAmxPanel;
  std::atomic<bool> finite = true;
  const bool in_blocks = sizeof(T) < sizeof(float) && depth > amx_depth_block<T>();
  parallel_ranges(matrices * parts, 1, [&](int64_t first, int64_t last) {
    const at::Tensor sums = in_blocks ? at::empty({rows_each, kAmxSums}, at::kFloat) : at::Tensor();
    for (int64_t piece = first; piece < last; ++piece) {
      const int64_t row = piece % parts / division.column_parts * rows_each;
      const int64_t column = piece % division.column_parts * columns_each;
      const MatrixPart part = {row, std::min(rows, row + rows_each), column, std::min(columns, column + columns_each)};
      if (part.first_row >= part.last_row || part.first_column >= part.last_column) continue;
      if (!amx_multiply(make_problem(piece / parts, in_blocks ? write<float>(sums) : nullptr), part, scratch()))
        finite = false;
    }
  });
  return finite;
}

}  // namespace

at::Tensor amx_gemm(const at::Tensor& left, const at::Tensor& right, const at::Tensor& bias) {
  auto sizes = left.sizes().vec();
  sizes.back() = right.size(-1);
  at::Tensor result = at::empty(sizes, left.options());
  const at::Tensor wide_bias = bias.defined() ? bias.to(at::kFloat) : bias;
  const bool finite = with_element_type(
      left, [&](auto element) { return multiply<decltype(element)>(left, right, wide_bias, result); });
  return finite ? result : at::Tensor();
}
#else
at::Tensor amx_gemm(const at::Tensor&, const at::Tensor&, const at::Tensor&) {
  TORCH_INTERNAL_ASSERT(false, "built without AMX");
}
#endif

}  // namespace modular::cpu
