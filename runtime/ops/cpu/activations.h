#pragma once

#include <ATen/ATen.h>

#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

/// function(x), of any strides; float32 or bfloat16.
at::Tensor activate(Activation function, const at::Tensor& x);
/// The gradient of x.
at::Tensor activate_backward(Activation function, const at::Tensor& grad, const at::Tensor& x);

/// From here on has at::gelu and at::silu computed by these loops, in all of the program: libtorch's take bfloat16
/// apart in more steps, read what is not contiguous element by element, and ask a library for tanh and erf. Calling it
/// again does nothing.
void install_activations();

}  // namespace modular::cpu
