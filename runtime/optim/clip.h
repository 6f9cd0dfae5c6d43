// The norm of the whole gradient, and clipping by it (Pascanu et al., On the difficulty of training recurrent neural
// networks).
#pragma once

#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/parallel/sharded_parameter.h"

namespace modular {

/// The Euclidean norm of the gradient of the whole model, the same on every rank and on every mesh. Collective over the
/// world (one all-reduce of one number); each box counts where it is owned.
double gradient_norm(const std::vector<ShardedParameter>& parameters, Mesh& mesh);

/// Scales the gradients so that a gradient of norm `norm` gets at most `max_norm`; a max_norm of 0 leaves them alone.
void clip_gradients(std::vector<ShardedParameter>& parameters, double norm, double max_norm);

}  // namespace modular
