// Groups of data-parallel ranks: the ranks that shard one copy of the model, and its replicas.
#pragma once

#include "runtime/mesh/mesh.h"

namespace modular {

/// Groups over which a rank shards parameters and reduces gradients. A null group contains only this rank.
struct DataParallelGroups {
  ProcessGroup shard;  // ranks that shard each parameter
  int64_t shard_size = 1;
  int64_t shard_rank = 0;
  ProcessGroup replicate;  // ranks that hold the same shard
  int64_t replicate_size = 1;
};

/// Returns the groups of this rank of `mesh`.
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
