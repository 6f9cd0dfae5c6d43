#include <ATen/CPUFunctions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <c10/util/BFloat16.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "runtime/ops/cpu/parallel.h"
#include "runtime/ops/cpu/replacements.h"
#include "runtime/ops/cpu/tensors.h"
#include "runtime/ops/replace_kernels.h"

namespace modular::cpu {
namespace {

using at::Scalar, at::Tensor;

bool have_same_layout(const Tensor& left, const Tensor& right, const Scalar& alpha) {
  return left.scalar_type() == at::kBFloat16 && right.scalar_type() == at::kBFloat16 && left.numel() > 0 &&
         right.device().is_cpu() && left.layout() == at::kStrided && right.layout() == at::kStrided &&
         !left.has_names() && !right.has_names() && left.sizes() == right.sizes() &&
         left.strides() == right.strides() && left.is_non_overlapping_and_dense() && alpha.equal(1);
}

Tensor add(const Tensor& left, const Tensor& right, const Scalar& alpha) {
  if (!have_same_layout(left, right, alpha)) return at::cpu::add(left, right, alpha);
  const Tensor y = at::empty_like(left);
  const Bf16 *a = read<Bf16>(left), *b = read<Bf16>(right);
  Bf16* to = write<Bf16>(y);
  parallel_ranges(left.numel(), kGrain, [&](int64_t first, int64_t last) {
    kernels<Bf16>().add(a + first, b + first, to + first, last - first);
  });
  return y;
}

Tensor& add_(Tensor& left, const Tensor& right, const Scalar& alpha) {
  // For partial overlap, libtorch reports the error.
  if (!have_same_layout(left, right, alpha) || at::get_overlap_status(left, right) == at::MemOverlapStatus::Partial)
    return at::cpu::add_(left, right, alpha);
  Bf16* to = write<Bf16>(left);
  const Bf16* from = read<Bf16>(right);
  parallel_ranges(left.numel(), kGrain,
                  [&](int64_t first, int64_t last) { kernels<Bf16>().add_to(to + first, from + first, last - first); });
  return left;
}

}  // namespace

void install_sums() {
  replace_kernels([](torch::Library& library) {
    library.impl("add.Tensor", add);
    library.impl("add_.Tensor", add_);
  });
}

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
