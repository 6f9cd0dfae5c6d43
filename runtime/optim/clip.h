// The norm of the full gradient, and clipping by it (Pascanu et al., On the difficulty of training recurrent neural
// networks). Both are found where the gradients are: the host does not wait for them.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/parallel/parameters/sharded_parameter.h"

namespace modular {

/// Of the gradient of the whole model, the same on every rank and on every mesh; on the mesh's device.
struct GradientNorm {
  at::Tensor norm;       // [] float64: the Euclidean norm
  at::Tensor is_finite;  // [] float64: 1, and 0 where the norm or a rank's loss is not finite
};

/// Collective over the world (one all-reduce of two numbers); each slice counts where it is owned. `loss` [] is this
/// rank's part of the loss, undefined where that is not asked about.
GradientNorm find_gradient_norm(const std::vector<ShardedParameter>& parameters, Mesh& mesh,
                                const at::Tensor& loss = {});

/// What becomes of gradients before parameters are updated by them. Undefined: nothing.
struct Clipping {
  at::Tensor divisor;  // [] float64: what they are divided by, at least 1
  at::Tensor skipped;  // [] float64: 1 where nothing is to be updated, and else 0
};

/// Divides so that a gradient of that norm gets at most `max_norm`; a max_norm of 0 leaves it alone. Nothing is updated
/// by what is not finite.
Clipping clipping_to(double max_norm, const GradientNorm& gradient);

}  // namespace modular
