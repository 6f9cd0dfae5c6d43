// What a rank keeps of a parameter, in the one form that optimizers, clipping and checkpoints see.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

namespace modular {

/// A slice of a parameter's global tensor, global[offset, offset + shape), and where it is in the rank's local tensor,
/// local[start, start + shape).
struct ParameterSlice {
  std::vector<int64_t> offset, start, shape;
  // Neighbouring tp ranks that hold the same slice; the gradient is the sum of what each of them finds.
  int64_t sharers = 1;
  bool owner = true;  // true on exactly one of the ranks that hold this slice: sums over all slices count owners only

  at::Tensor in_global(const at::Tensor& whole) const { return cut(whole, offset); }
  /// In the rank's tensor, its gradient, or what an optimizer keeps beside it.
  at::Tensor in_local(const at::Tensor& local) const { return cut(local, start); }

 private:
  at::Tensor cut(at::Tensor tensor, const std::vector<int64_t>& begin) const {
    for (size_t dim = 0; dim < shape.size(); ++dim)
      tensor = tensor.narrow(static_cast<int64_t>(dim), begin[dim], shape[dim]);
    return tensor;
  }
};

/// What this rank keeps, updates and saves of one parameter.
struct ShardedParameter {
  std::string name;                    // canonical name, e.g. "model.layers.0.mlp.up_proj.weight"
  std::vector<std::string> names;      // all of its names: a tied parameter has several
  std::vector<int64_t> global_shape;   // of the full parameter
  std::vector<ParameterSlice> slices;  // that `local` is made of: one, or one for each part of a fused layer
  at::Tensor local;                    // float32; may be empty where ranks outnumber rows
  // Like local, summed over the mesh; undefined before the first step. Float32, or of the type that is computed in.
  at::Tensor grad;
  // What is computed with, where that is a bfloat16 copy of local on this rank: an update may write it along with
  // local, and then says so.
  at::Tensor rounded;
  bool compute_copy_is_fresh = false;
  bool trainable = true;      // false of one that never has a gradient
  bool layer_matrix = false;  // a matrix of a layer, or a stack of its experts' matrices [experts, rows, columns]
};

}  // namespace modular
