// Shards over tensor-parallel ranks that do not divide the sharded size: fewer KV heads than ranks, which KV
// replication groups share, and vocabularies of which the last ranks hold fewer rows.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/model/registry.h"
#include "runtime/parallel/parameters/parameter_table.h"
#include "runtime/parallel/step/feature.h"

namespace modular {

/// Finds the parts of `table`, the table of `entry` built from `config`, that `tp` ranks shard unevenly or replicate,
/// and records this in the parts. Returns why they cannot be sharded; empty if they can.
std::string describe_uneven_splits(ParameterTable& table, const Entry& entry, const AnyConfig& config, int64_t tp);

/// Returns the distinct part sizes that `tp` ranks do not divide; nullopt if the length of a rank's slice does not
/// identify the size of its part. `table` must have been processed by describe_uneven_splits().
std::optional<std::vector<int64_t>> uneven_sizes(const ParameterTable& table, int64_t tp);

/// Sums the partial gradients of slices over KV replication groups.
class SharedSlices final : public Feature {
 public:
  /// Collective: creates the KV replication groups of `table`, including slices that this rank's stage does not hold.
  SharedSlices(const ParameterTable& table, Mesh& mesh);
  /// Groups by size.
  const std::map<int64_t, ProcessGroup>& groups() const { return groups_; }
  /// Collective over the groups, whose ranks hold the same slices. `grad` of each trainable parameter must be defined.
  void reduce_gradients(std::vector<ShardedParameter>& parameters) override;

 private:
  std::map<int64_t, ProcessGroup> groups_;
};

}  // namespace modular
