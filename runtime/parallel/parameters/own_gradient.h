// Gradients that may be changed in place.
#pragma once

#include <ATen/ATen.h>

namespace modular {

/// Copies the gradient of `parameter` if another tensor shares its memory. autograd keeps views of one tensor as the
/// gradients of several parameters, as for at::stack({a, b}).sum(0): adding to one in place would change the others.
inline void own_gradient(const at::Tensor& parameter) {
  at::Tensor& gradient = parameter.mutable_grad();
  if (gradient.defined() && gradient.has_storage() && gradient.storage().use_count() > 1) gradient = gradient.clone();
}

}  // namespace modular
