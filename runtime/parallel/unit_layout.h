// Where the parameters of a unit lie in memory: this rank's shards in one flat tensor, the full parameters in another.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace modular {

/// Where one parameter is. Rows are slices along dimension `dim`; each rank holds `chunk` elements of the flat shard,
/// the last ones partly or wholly padding where the ranks do not divide the rows.
struct ParameterPlacement {
  at::Tensor registered;       // the tensor that the module computes with
  std::vector<int64_t> shape;  // of `registered`: the full parameter, or this tp rank's slice of it
  int64_t dim = 0;             // which the ranks divide between them: of those with little padding the first
  int64_t outer = 1;           // elements of the dimensions before it: runs of rows
  int64_t rows = 0;            // shape[dim]; 1 of a number
  int64_t row_size = 0;        // elements of a row of one run
  int64_t chunk_rows = 0;      // rows of a rank, the same on all
  int64_t offset = 0;          // in the flat shard
  int64_t run() const { return chunk_rows * row_size; }
  int64_t chunk() const { return outer * run(); }
  int64_t elements() const { return outer * rows * row_size; }
};

/// Lays out the parameters of a unit over `ranks` ranks. Each begins at a multiple of a cache line, in every type.
struct UnitLayout {
  std::vector<ParameterPlacement> parameters;
  int64_t ranks = 1;
  int64_t shard_size = 0;  // elements of a rank's flat shard

  UnitLayout() = default;
  explicit UnitLayout(int64_t ranks) : ranks(ranks) {}
  /// Appends a parameter of `shape`. A number without dimensions is one row, which the first rank keeps.
  void add(at::Tensor registered, std::vector<int64_t> shape);

  /// The rows of a parameter that `rank` keeps: first and number, which may be 0.
  std::pair<int64_t, int64_t> get_rows(const ParameterPlacement& parameter, int64_t rank) const;
  /// What `rank` keeps of a parameter, as a view of its flat shard.
  at::Tensor local(const at::Tensor& flat_shard, const ParameterPlacement& parameter, int64_t rank) const;
  /// All ranks' chunks of a parameter whose `outer` is 1, [ranks, chunk], contiguous, as a view of ranks * shard_size
  /// elements in which each parameter is whole.
  at::Tensor chunks(const at::Tensor& flat_full, const ParameterPlacement& parameter) const;

  /// The same elements in the parameter and in the ranks' flat shards: views of one shape.
  struct Places {
    at::Tensor in_whole, in_shards;
  };
  /// All of a parameter's elements, of the `whole` one, contiguous, and of the shards `by_rank` [ranks, shard_size].
  std::vector<Places> places(const at::Tensor& whole, const at::Tensor& by_rank,
                             const ParameterPlacement& parameter) const;
  /// Makes 0 what of a parameter's chunks is padding.
  void clear_padding(const at::Tensor& by_rank, const ParameterPlacement& parameter) const;

  /// The parameter itself as a view of the same.
  at::Tensor whole(const at::Tensor& flat_full, const ParameterPlacement& parameter) const;
};

}  // namespace modular
