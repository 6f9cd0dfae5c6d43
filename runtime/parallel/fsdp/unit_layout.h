// Memory layout of the parameters of a unit: this rank's shards in one flat tensor, the unsharded parameters in
// another.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace modular {

/// Layout of one parameter. Rows are slices along dimension `dim`. Each rank holds `chunk` elements of the flat shard;
/// on the last ranks part or all of them are padding if the ranks do not divide the rows.
struct ParameterPlacement {
  at::Tensor registered;       // the tensor that the module computes with
  std::vector<int64_t> shape;  // shape of `registered`: the full parameter, or this tp rank's slice of it
  int64_t dim = 0;             // sharded dimension: the first of those with little padding
  int64_t outer = 1;           // elements of the dimensions before `dim`: number of runs of rows
  int64_t rows = 0;            // shape[dim]; 1 for a scalar
  int64_t row_size = 0;        // elements of a row within one run
  int64_t chunk_rows = 0;      // rows per rank, the same on all ranks
  int64_t offset = 0;          // offset in the flat shard
  int64_t run() const { return chunk_rows * row_size; }
  int64_t chunk() const { return outer * run(); }
  int64_t elements() const { return outer * rows * row_size; }
};

/// Layout of a unit's parameters over `ranks` ranks. Each parameter starts at a multiple of a cache line, in every
/// type.
struct UnitLayout {
  std::vector<ParameterPlacement> parameters;
  int64_t ranks = 1;
  int64_t shard_size = 0;  // elements of a rank's flat shard

  UnitLayout() = default;
  explicit UnitLayout(int64_t ranks) : ranks(ranks) {}
  /// Appends a parameter of `shape`. A scalar is one row, which the first rank holds.
  void add(at::Tensor registered, std::vector<int64_t> shape);

  /// Returns the rows of a parameter that `rank` holds: first and count, which may be 0.
  std::pair<int64_t, int64_t> get_rows(const ParameterPlacement& parameter, int64_t rank) const;
  /// Returns the part of a parameter that `rank` holds, as a view of its flat shard.
  at::Tensor local(const at::Tensor& flat_shard, const ParameterPlacement& parameter, int64_t rank) const;
  /// Returns all ranks' chunks of a parameter whose `outer` is 1, [ranks, chunk], contiguous, as a view of ranks *
  /// shard_size elements in which each parameter is contiguous.
  at::Tensor chunks(const at::Tensor& flat_full, const ParameterPlacement& parameter) const;

  /// The same elements in the full parameter and in the ranks' flat shards: views of the same shape.
  struct ShardViews {
    at::Tensor in_full, in_shards;
  };
  /// Returns views of all elements of a parameter, in the contiguous `full_parameter` and in the shards `by_rank`
  /// [ranks, shard_size]: for copy-in and copy-out.
  std::vector<ShardViews> shard_views(const at::Tensor& full_parameter, const at::Tensor& by_rank,
                                      const ParameterPlacement& parameter) const;
  /// Zeroes the padding in a parameter's chunks.
  void clear_padding(const at::Tensor& by_rank, const ParameterPlacement& parameter) const;

  /// Returns the full parameter as a view of the same memory as chunks().
  at::Tensor full(const at::Tensor& flat_full, const ParameterPlacement& parameter) const;
};

}  // namespace modular
