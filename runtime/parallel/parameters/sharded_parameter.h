// This rank's part of a parameter, in the form that optimizers, gradient clipping and checkpoints use.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

namespace modular {

/// A slice of a parameter's global tensor, global[offset, offset + shape), and its location in the rank's local tensor,
/// local[start, start + shape).
struct ParameterSlice {
  std::vector<int64_t> offset, start, shape;
  // Size of the KV replication group: consecutive tp ranks that hold the same slice. The gradient is the sum of their
  // partial gradients.
  int64_t kv_replicas = 1;
  bool owner = true;  // true on exactly one rank that holds this slice: sums over all slices count owners only

  at::Tensor in_global(const at::Tensor& global) const { return cut(global, offset); }
  /// Slices the rank's local tensor, its gradient, or an optimizer state of the same shape.
  at::Tensor in_local(const at::Tensor& local) const { return cut(local, start); }

 private:
  at::Tensor cut(at::Tensor tensor, const std::vector<int64_t>& begin) const {
    for (size_t dim = 0; dim < shape.size(); ++dim)
      tensor = tensor.narrow(static_cast<int64_t>(dim), begin[dim], shape[dim]);
    return tensor;
  }
};

/// The part of one parameter that this rank holds, updates and saves.
struct ShardedParameter {
  std::string name;                    // canonical name, e.g. "model.layers.0.mlp.up_proj.weight"
  std::vector<std::string> names;      // all names; a tied parameter has several
  std::vector<int64_t> global_shape;   // shape of the full parameter
  std::vector<ParameterSlice> slices;  // slices that make up `local`: one, or one per part of a fused layer
  at::Tensor local;                    // float32; may be empty if there are more ranks than rows
  // Same shape as local, reduced over the mesh; undefined before the first step. Float32, or the compute type.
  at::Tensor grad;
  // The bf16 compute copy of local, if it exists only on this rank. An update may write it together with local, and
  // then sets compute_copy_is_fresh.
  at::Tensor rounded;
  bool compute_copy_is_fresh = false;
  bool trainable = true;      // false if it never has a gradient
  bool layer_matrix = false;  // matrix of a layer, or its experts' stacked matrices [experts, rows, columns]
};

}  // namespace modular
