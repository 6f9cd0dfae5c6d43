// How tensor-parallel ranks split a dimension, and this rank's part of a parameter, in the form that optimizers,
// gradient clipping and checkpoints use.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace modular {

/// A run of elements that is sharded over tp on its own.
struct SplitPart {
  int64_t size = 0;
  // For KV heads: maximum number of slices. If there are more ranks, consecutive ranks form KV replication groups that
  // hold the same slice. 0: each rank has its own slice.
  int64_t slices = 0;
  bool may_be_uneven = false;  // a vocabulary: if the ranks do not divide it, the last ranks hold fewer rows or none
};

/// Elements [begin, begin + size) of a part.
struct PartSlice {
  int64_t begin = 0, size = 0;
  int64_t kv_replicas = 1;  // size of the KV replication group that holds the same slice
  bool owner = true;        // true on the first rank of the group
};

/// Returns the slice of `part` that rank `tp_rank` of `tp` holds; slices have the lengths of torch.chunk. If the part
/// has a number of slices, `tp` must be a multiple of it.
inline PartSlice to_part_slice(const SplitPart& part, int64_t tp, int64_t tp_rank) {
  const int64_t slices = part.slices > 0 ? std::min(part.slices, tp) : tp, kv_replicas = tp / slices;
  const int64_t longest = (part.size + slices - 1) / slices;
  const int64_t begin = std::min(tp_rank / kv_replicas * longest, part.size);
  return {begin, std::min(longest, part.size - begin), kv_replicas, tp_rank % kv_replicas == 0};
}

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
  bool trainable = true;             // false if it never has a gradient
  bool is_rate = false;              // rates of a state space, which do not decay
  bool partial_in_sequence = false;  // with sequence parallelism, each tp rank computes a part of the gradient
  bool layer_matrix = false;         // matrix of a layer, or its experts' stacked matrices [experts, rows, columns]
};

}  // namespace modular
