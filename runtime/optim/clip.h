// The norm of the full gradient, and gradient clipping by norm (Pascanu et al., On the difficulty of training recurrent
// neural networks). Both are computed on the gradients' device, so the host does not wait for them.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/parallel/parameters/sharded_parameter.h"

namespace modular {

/// Norm of the model's full gradient, the same on every rank and on every mesh; on the mesh's device.
struct GradientNorm {
  at::Tensor norm;       // [] float64: the Euclidean norm
  at::Tensor is_finite;  // [] float64: 1, or 0 if the norm or a rank's loss is not finite
};

/// Collective over the world (one all-reduce of two numbers). Each slice counts on the rank that owns it. `loss` [] is
/// this rank's part of the loss; if undefined, losses are not checked.
GradientNorm find_gradient_norm(const std::vector<ShardedParameter>& parameters, Mesh& mesh,
                                const at::Tensor& loss = {});

/// Changes to the gradients before the update. An undefined member changes nothing.
struct Clipping {
  at::Tensor divisor;  // [] float64: divisor of the gradients, at least 1
  at::Tensor skipped;  // [] float64: 1 to skip the update, else 0
};

/// Clips a gradient of this norm to at most `max_norm`; a max_norm of 0 does not clip. The update is skipped if the
/// norm or the loss is not finite.
Clipping clipping_to(double max_norm, const GradientNorm& gradient);

}  // namespace modular
