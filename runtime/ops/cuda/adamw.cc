#include "runtime/ops/adamw.h"

#include "runtime/ops/cuda/adamw.h"
#include "runtime/ops/cuda/operations.h"
#include "runtime/ops/cuda/tensors.h"

namespace modular::cuda {
namespace {

using at::Tensor;

AdamWTensor described(const AdamWParameter& of) {
  return {.gradient = read<__nv_bfloat16>(of.gradient),
          .value = write<float>(of.value),
          .exp_avg = write<float>(of.exp_avg),
          .exp_avg_sq = write<float>(of.exp_avg_sq),
          .rounded = write<__nv_bfloat16>(of.rounded),
          .count = of.value.numel(),
          .is_aligned = is_aligned(of.gradient) && is_aligned(of.value) && is_aligned(of.exp_avg) &&
                        is_aligned(of.exp_avg_sq) && is_aligned(of.rounded)};
}

AdamWTensor described(const Tensor& gradient) {
  AdamWTensor tensor = {};
  tensor.gradient = read<__nv_bfloat16>(gradient);
  tensor.count = gradient.numel();
  tensor.is_aligned = is_aligned(gradient);
  return tensor;
}

/// As many tensors a launch as it takes.
template <class Of>
std::vector<AdamWTensors> to_launches(const std::vector<Of>& all) {
  std::vector<AdamWTensors> launches;
  for (const Of& one : all) {
    if (launches.empty() || launches.back().count == AdamWTensors::kMost) launches.push_back({});
    launches.back().of[launches.back().count++] = described(one);
  }
  return launches;
}

const float* number(const std::optional<Tensor>& tensor) { return tensor ? read<float>(*tensor) : nullptr; }

}  // namespace

void adamw(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
           const std::optional<Tensor>& divisor, const std::optional<Tensor>& skipped) {
  with_stream(parameters.front().value, [&](cudaStream_t stream) {
    for (const AdamWTensors& launch : to_launches(parameters))
      launch_adamw(launch, factors, number(divisor), number(skipped), stream);
  });
}

Tensor sum_of_squares(const std::vector<Tensor>& tensors) {
  const std::vector<AdamWTensors> launches = to_launches(tensors);
  int64_t blocks = 0;
  for (const AdamWTensors& launch : launches) blocks += blocks_of_adamw(launch);
  const Tensor sums = at::empty({blocks}, tensors.front().options().dtype(at::kFloat));
  with_stream(sums, [&](cudaStream_t stream) {
    float* to = write<float>(sums);
    for (const AdamWTensors& launch : launches) {
      launch_sums_of_squares(launch, to, stream);
      to += blocks_of_adamw(launch);
    }
  });
  return sums.sum(at::kDouble);
}

}  // namespace modular::cuda
