// Plain numbers, for kernels that know nothing of libtorch.
#pragma once

namespace modular {

/// What an update multiplies and adds, the same for all elements.
struct AdamWFactors {
  float decay;                    // 1 - lr * weight_decay
  float of_gradient, of_square;   // 1 - beta1 and 1 - beta2
  float beta2, step_size;         // lr / (1 - beta1^number)
  float root_of_correction, eps;  // sqrt(1 - beta2^number)
};

}  // namespace modular
