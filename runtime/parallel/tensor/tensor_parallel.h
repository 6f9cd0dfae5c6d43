// Collectives with autograd over a process group, which models call: tensor parallelism (Shoeybi et al., Megatron-LM)
// for meshes whose `tp` axis is larger than 1, and the rows of data-parallel ranks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/mesh/rendezvous.h"
#include "runtime/model/dp.h"
#include "runtime/model/tp.h"

namespace modular {

/// Returns the operations over `group`, with autograd. All ranks of the group must call them in the same way, with
/// equal values for arguments that the contract (runtime/model/tp.h) calls "replicated". They may be recomputed in the
/// backward and run in float32, bfloat16 or float16. Reductions use the type of the values; the cross entropy uses
/// float32. `kv_groups` are the KV replication groups that include this rank, by size. `uneven` is the result of
/// uneven_sizes(); without it, ranks all-gather the lengths of what they gather.
std::unique_ptr<tp::TensorParallel> make_tensor_parallel(ProcessGroup group,
                                                         std::map<int64_t, ProcessGroup> kv_groups = {},
                                                         std::optional<std::vector<int64_t>> uneven = {});

/// Returns the implementation over `group`. A rank's index in the group is the index of its part of a batch.
std::unique_ptr<dp::DataParallel> make_data_parallel(ProcessGroup group);

}  // namespace modular
