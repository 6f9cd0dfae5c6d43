#include "runtime/ops/cpu/skinny_gemm.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "runtime/model/parallel.h"
#include "runtime/ops/cpu/parallel.h"
#include "runtime/ops/cpu/skinny_gemm_kernel.h"
#include "runtime/ops/cpu/tensors.h"

namespace modular::cpu {
namespace {

using at::Tensor;

/// Minimum number of weight elements per thread.
constexpr int64_t kWeightsPerThread = 32768;

bool is_skinny(const Tensor& left, const Tensor& right) {
  // Checks for a cache, not only for the absence of a graph: the first forward of a recomputed unit has no graph
  // either, and must match the second.
  if (!bound.cache || at::GradMode::is_enabled() || left.dim() != 2 || right.dim() != 2) return false;
  const auto type = left.scalar_type();
  return (type == at::kFloat || type == at::kBFloat16) && right.scalar_type() == type && left.size(0) > 0 &&
         left.size(0) <= kSkinnyRows && left.size(1) == right.size(0) && right.size(1) > 0 && left.size(1) > 0 &&
         left.size(1) % kSkinnyStep == 0 && left.stride(1) == 1 && right.stride(0) == 1 &&
         right.stride(1) == right.size(0);
}

}  // namespace

Tensor skinny_gemm(const Tensor& left, const Tensor& right) {
  if (!is_skinny(left, right)) return {};
  const int64_t rows = left.size(0), features = left.size(1), outputs = right.size(1);
  const Tensor result = at::empty({rows, outputs}, left.options());
  const Tensor packed = at::empty({kSkinnyRows, features}, left.options().dtype(at::kFloat));
  with_element_type(left, [&](auto element) {
    using T = decltype(element);
    const SkinnyGemmKernels<T>& kernels = skinny_gemm_kernels<T>();
    kernels.pack(read<T>(left), left.stride(0), write<float>(packed), rows, features);
    parallel_ranges(outputs, std::max<int64_t>(1, kWeightsPerThread / features), [&](int64_t first, int64_t last) {
      kernels.multiply(read<float>(packed), read<T>(right), write<T>(result), outputs, rows, features, first, last);
    });
  });
  return result;
}

}  // namespace modular::cpu
