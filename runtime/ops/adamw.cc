#include "runtime/ops/adamw.h"

#include <cmath>

#include "runtime/ops/operations.h"

namespace modular {

AdamWFactors adamw_factors(double lr, double beta1, double beta2, double eps, double weight_decay, int64_t number) {
  const auto correction = [&](double beta) { return 1.0 - std::pow(beta, static_cast<double>(number)); };
  const auto to_float = [](double value) { return static_cast<float>(value); };
  return {.decay = to_float(1.0 - lr * weight_decay),
          .gradient_weight = to_float(1.0 - beta1),
          .square_weight = to_float(1.0 - beta2),
          .beta2 = to_float(beta2),
          .step_size = to_float(lr / correction(beta1)),
          .sqrt_bias_correction2 = to_float(std::sqrt(correction(beta2))),
          .eps = to_float(eps)};
}

bool has_adamw(const at::Device& device) {
  const Operations* operations = operations_for(device);
  return operations && operations->adamw;
}

void adamw(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
           const std::optional<at::Tensor>& divisor, const std::optional<at::Tensor>& skipped) {
  if (!parameters.empty())
    operations_for(parameters.front().value.device())->adamw(parameters, factors, divisor, skipped);
}

at::Tensor sum_of_squares(const std::vector<at::Tensor>& tensors) {
  return operations_for(tensors.front().device())->sum_of_squares(tensors);
}

}  // namespace modular
