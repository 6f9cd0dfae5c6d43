// Plain numbers, for kernels that do not include libtorch.
#pragma once

namespace modular {

/// Constants of an update, shared by all elements.
struct AdamWFactors {
  float decay;                           // 1 - lr * weight_decay
  float gradient_weight, square_weight;  // 1 - beta1 and 1 - beta2
  float beta2, step_size;                // lr / (1 - beta1^number)
  float sqrt_bias_correction2, eps;      // sqrt(1 - beta2^number)
};

}  // namespace modular
