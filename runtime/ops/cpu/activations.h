#pragma once

#include <ATen/ATen.h>

#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

/// function(x), elementwise, of x's type, float32 or bfloat16, and of its strides where it is dense, else contiguous.
at::Tensor activate(Activation function, const at::Tensor& x);
/// The gradient of x. `grad` has x's sizes and type.
at::Tensor activate_backward(Activation function, const at::Tensor& grad, const at::Tensor& x);

/// From here on has at::gelu and at::silu computed by these loops, in all of the program: libtorch's take bfloat16
/// apart in more steps, read what is not contiguous element by element, and ask a library for tanh and erf. Calling it
/// again does nothing.
void install_activations();

}  // namespace modular::cpu
