#include "runtime/ops/cpu/embedding.h"

#include <ATen/CPUFunctions.h>
#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <c10/util/BFloat16.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "runtime/ops/replace_kernels.h"

namespace modular::cpu {
namespace {

using at::Tensor;

/// Start index of each group of equal values in `sorted`, followed by `count`.
std::vector<int64_t> find_group_begins(const int64_t* sorted, int64_t count) {
  std::vector<int64_t> begins;
  for (int64_t i = 0; i < count; ++i)
    if (i == 0 || sorted[i] != sorted[i - 1]) begins.push_back(i);
  begins.push_back(count);
  return begins;
}

/// Implements libtorch's operator. One thread sums a row's tokens in order, so that the sum does not depend on the
/// number of threads.
Tensor embedding_dense_backward(const Tensor& gradient, const Tensor& indices, int64_t rows, int64_t padding_idx,
                                bool scale_by_frequency) {
  if (gradient.scalar_type() != at::kBFloat16 || scale_by_frequency)
    return at::cpu::embedding_dense_backward(gradient, indices, rows, padding_idx, scale_by_frequency);
  const int64_t columns = gradient.size(-1), tokens = indices.numel();
  const Tensor result = at::zeros({rows, columns}, gradient.options());
  if (tokens == 0) return result;
  const Tensor by_token = gradient.reshape({tokens, columns}).contiguous();
  const auto [sorted, order] = indices.reshape({tokens}).to(at::kLong).sort(/*stable=*/true, 0, /*descending=*/false);
  const int64_t* const sorted_rows = sorted.const_data_ptr<int64_t>();
  const int64_t* const token_order = order.const_data_ptr<int64_t>();
  const auto* const from = by_token.const_data_ptr<c10::BFloat16>();
  auto* const to = result.mutable_data_ptr<c10::BFloat16>();
  const std::vector<int64_t> begins = find_group_begins(sorted_rows, tokens);
  at::parallel_for(0, static_cast<int64_t>(begins.size()) - 1, 1, [&](int64_t first, int64_t last) {
    std::vector<float> sums(static_cast<size_t>(columns));
    for (int64_t group = first; group < last; ++group) {
      const int64_t row = sorted_rows[begins[group]];
      if (row == padding_idx) continue;
      std::ranges::fill(sums, 0.0F);
      for (int64_t i = begins[group]; i < begins[group + 1]; ++i) {
        const auto* const added = from + token_order[i] * columns;
        for (int64_t column = 0; column < columns; ++column) sums[column] += added[column];
      }
      std::ranges::copy(sums, to + row * columns);
    }
  });
  return result;
}

}  // namespace

void install_embedding() {
  replace_kernels([](torch::Library& library) { library.impl("embedding_dense_backward", embedding_dense_backward); });
}

}  // namespace modular::cpu
