#include "runtime/ops/cpu/sums.h"

#include <ATen/CPUFunctions.h>
#include <ATen/MemoryOverlap.h>

#include "runtime/ops/cpu/parallel.h"
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

}  // namespace modular::cpu
