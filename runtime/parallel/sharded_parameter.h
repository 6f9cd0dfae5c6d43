// What a rank keeps of a parameter, in the one form that optimizers, clipping and checkpoints see.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

namespace modular {

/// The box of one parameter that this rank keeps, updates and saves: global[offset, offset + local.sizes()).
struct ShardedParameter {
  std::string name;                   // canonical name, e.g. "model.layers.0.mlp.up_proj.weight"
  std::vector<int64_t> global_shape;  // of the whole parameter
  std::vector<int64_t> offset;        // where the local box begins
  at::Tensor local;                   // float32; may be empty where ranks outnumber rows
  at::Tensor grad;                    // like local, summed over the mesh; undefined before the first step
  bool owner = true;  // true on exactly one of the ranks that hold this box: sums over all boxes count owners only
};

}  // namespace modular
