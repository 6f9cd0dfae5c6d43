// The slices of a parameter that each rank of a group holds.
#pragma once

#include <span>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/parallel/parameters/sharded_parameter.h"

namespace modular {

/// Slices by rank of a group. Any two slices are either equal or disjoint.
struct Holders {
  std::vector<std::vector<ParameterSlice>> slices;
  // Parallel to `slices`: whether no earlier rank holds the same slice. These slices cover the full parameter once.
  std::vector<std::vector<bool>> first;
};

/// The holders of each parameter among the ranks of `group`. Collective: every rank passes the same parameters. A null
/// group stands for this rank alone.
std::vector<Holders> find_holders(std::span<const ShardedParameter* const> parameters, const ProcessGroup& group,
                                  const at::Device& device);

}  // namespace modular
