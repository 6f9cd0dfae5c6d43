// Tensor parallelism (Shoeybi et al., Megatron-LM) over a process group: what the calls that modgen weaves into the
// models do on a mesh whose `tp` axis is larger than 1.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/mesh/rendezvous.h"
#include "runtime/model/tp.h"

namespace modular {

/// The operations over `group`, with autograd. All ranks of the group call them in the same way, with values that are
/// equal where the contract (runtime/model/tp.h) says "replicated". They may be recomputed in the backward and run in
/// float32, bfloat16 or float16; reductions are made in the values' own type, the cross entropy's in float32.
/// `neighbours` are the groups, by their number of ranks, of runs of ranks that share heads, of which this is one.
/// `uneven` as uneven_sizes() finds them; without, the ranks tell each other the lengths of what they gather.
std::unique_ptr<tp::TensorParallel> make_tensor_parallel(ProcessGroup group,
                                                         std::map<int64_t, ProcessGroup> neighbours = {},
                                                         std::optional<std::vector<int64_t>> uneven = {});

}  // namespace modular
