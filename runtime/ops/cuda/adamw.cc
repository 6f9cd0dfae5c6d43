#include "runtime/ops/adamw.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "runtime/ops/cuda/adamw.h"
#include "runtime/ops/cuda/operations.h"

namespace modular::cuda {
namespace {

using at::Tensor;

bool is_aligned(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* tensor : tensors)
    if (reinterpret_cast<uintptr_t>(tensor->const_data_ptr()) % 16 != 0) return false;
  return true;
}

AdamWTensor described(const AdamWParameter& of) {
  return {.gradient = static_cast<const __nv_bfloat16*>(of.gradient.const_data_ptr()),
          .value = of.value.mutable_data_ptr<float>(),
          .exp_avg = of.exp_avg.mutable_data_ptr<float>(),
          .exp_avg_sq = of.exp_avg_sq.mutable_data_ptr<float>(),
          .rounded = static_cast<__nv_bfloat16*>(of.rounded.mutable_data_ptr()),
          .count = of.value.numel(),
          .is_aligned = is_aligned({&of.gradient, &of.value, &of.exp_avg, &of.exp_avg_sq, &of.rounded})};
}

AdamWTensor described(const Tensor& gradient) {
  AdamWTensor tensor = {};
  tensor.gradient = static_cast<const __nv_bfloat16*>(gradient.const_data_ptr());
  tensor.count = gradient.numel();
  tensor.is_aligned = is_aligned({&gradient});
  return tensor;
}

/// As many tensors a launch as it takes.
template <class Of>
std::vector<AdamWTensors> launches_of(const std::vector<Of>& all) {
  std::vector<AdamWTensors> launches;
  for (const Of& one : all) {
    if (launches.empty() || launches.back().count == AdamWTensors::kMost) launches.push_back({});
    launches.back().of[launches.back().count++] = described(one);
  }
  return launches;
}

const float* number(const std::optional<Tensor>& tensor) { return tensor ? tensor->const_data_ptr<float>() : nullptr; }

}  // namespace

void adamw(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
           const std::optional<Tensor>& divisor, const std::optional<Tensor>& skipped) {
  const c10::cuda::CUDAGuard on_its_device(parameters.front().value.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  for (const AdamWTensors& launch : launches_of(parameters))
    launch_adamw(launch, factors, number(divisor), number(skipped), stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

Tensor sum_of_squares(const std::vector<Tensor>& tensors) {
  const c10::cuda::CUDAGuard on_its_device(tensors.front().device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const std::vector<AdamWTensors> launches = launches_of(tensors);
  int64_t blocks = 0;
  for (const AdamWTensors& launch : launches) blocks += blocks_of_adamw(launch);
  const Tensor sums = at::empty({blocks}, tensors.front().options().dtype(at::kFloat));
  float* to = sums.mutable_data_ptr<float>();
  for (const AdamWTensors& launch : launches) {
    launch_sums_of_squares(launch, to, stream);
    to += blocks_of_adamw(launch);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return sums.sum(at::kDouble);
}

}  // namespace modular::cuda
