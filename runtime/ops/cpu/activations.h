#pragma once

#include <ATen/ATen.h>

#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

/// function(x), elementwise. The result has x's type, float32 or bfloat16, and x's strides if x is dense, else it is
/// contiguous.
at::Tensor activate(Activation function, const at::Tensor& x);
/// The gradient of x. `grad` has the sizes and type of x.
at::Tensor activate_backward(Activation function, const at::Tensor& grad, const at::Tensor& x);

/// Replaces at::gelu and at::silu with these loops in the entire program: libtorch's unpack bfloat16 in more steps,
/// read non-contiguous tensors element by element, and call a library for tanh and erf. Calling it again does nothing.
void install_activations();

}  // namespace modular::cpu
