#include "runtime/ops/adamw.h"

#include "runtime/ops/cuda/adamw.h"
#include "runtime/ops/cuda/operations.h"
#include "runtime/ops/cuda/tensors.h"

namespace modular::cuda {
namespace {

using at::Tensor;

AdamWTensor describe(const AdamWParameter& parameter) {
  return {.gradient = read<__nv_bfloat16>(parameter.gradient),
          .value = write<float>(parameter.value),
          .exp_avg = write<float>(parameter.exp_avg),
          .exp_avg_sq = write<float>(parameter.exp_avg_sq),
          .compute_copy = write<__nv_bfloat16>(parameter.compute_copy),
          .count = parameter.value.numel(),
          .is_aligned = is_aligned(parameter.gradient) && is_aligned(parameter.value) &&
                        is_aligned(parameter.exp_avg) && is_aligned(parameter.exp_avg_sq) &&
                        is_aligned(parameter.compute_copy)};
}

AdamWTensor describe(const Tensor& gradient) {
  AdamWTensor tensor = {};
  tensor.gradient = read<__nv_bfloat16>(gradient);
  tensor.count = gradient.numel();
  tensor.is_aligned = is_aligned(gradient);
  return tensor;
}

/// Splits the tensors into launches of at most AdamWTensors::kMost.
template <class Item>
std::vector<AdamWTensors> to_launches(const std::vector<Item>& all) {
  std::vector<AdamWTensors> launches;
  for (const Item& item : all) {
    if (launches.empty() || launches.back().count == AdamWTensors::kMost) launches.push_back({});
    launches.back().items[launches.back().count++] = describe(item);
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
  for (const AdamWTensors& launch : launches) blocks += count_adamw_blocks(launch);
  const Tensor sums = at::empty({blocks}, tensors.front().options().dtype(at::kFloat));
  with_stream(sums, [&](cudaStream_t stream) {
    float* to = write<float>(sums);
    for (const AdamWTensors& launch : launches) {
      launch_sums_of_squares(launch, to, stream);
      to += count_adamw_blocks(launch);
    }
  });
  return sums.sum(at::kDouble);
}

}  // namespace modular::cuda
