// The ranks that share the work of one copy of the model, and those that repeat it.
#pragma once

#include "runtime/mesh/mesh.h"

namespace modular {

/// A rank's groups for parameters and gradients. A null group is this rank alone.
struct DataParallelGroups {
  ProcessGroup shard;  // ranks among which each parameter is divided
  int64_t shard_size = 1;
  int64_t shard_rank = 0;
  ProcessGroup replicate;  // ranks that keep the same shard
  int64_t replicate_size = 1;
};

/// Those of a mesh.
inline DataParallelGroups data_parallel_groups(Mesh& mesh) {
  DataParallelGroups groups;
  groups.shard = mesh.group({Axis::dp_shard});
  groups.shard_size = mesh.size(Axis::dp_shard);
  groups.shard_rank = mesh.coordinate(Axis::dp_shard);
  groups.replicate = mesh.group({Axis::dp_replicate});
  groups.replicate_size = mesh.size(Axis::dp_replicate);
  return groups;
}

}  // namespace modular
