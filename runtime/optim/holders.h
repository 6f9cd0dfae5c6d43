// Which slices of a parameter each rank of a group holds.
#pragma once

#include <span>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/parallel/parameters/sharded_parameter.h"

namespace modular {

/// By the ranks of a group. Two slices of them are the same or have no element in common.
struct Holders {
  std::vector<std::vector<ParameterSlice>> slices;
  // Beside slices: whether no rank before holds the same. These slices are the full parameter, once.
  std::vector<std::vector<bool>> first;
};

/// The holders of each parameter among the ranks of `group`, of which this is `rank`. Collective: every rank names the
/// same parameters. A null group is this rank alone.
std::vector<Holders> find_holders(std::span<const ShardedParameter* const> parameters, const ProcessGroup& group,
                                  const at::Device& device);

}  // namespace modular
