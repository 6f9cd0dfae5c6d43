// Which boxes of a parameter each rank of a group holds.
#pragma once

#include <span>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/parallel/sharded_parameter.h"

namespace modular {

/// By the ranks of a group. Two boxes of them are the same or have no element in common.
struct Holders {
  std::vector<std::vector<ParameterBox>> boxes;
  // Beside boxes: whether no rank before holds the same. These boxes are the whole parameter, once.
  std::vector<std::vector<bool>> first;
};

/// The holders of each parameter among the ranks of `group`, of which this is `rank`. Collective: every rank names the
/// same parameters. A null group is this rank alone.
std::vector<Holders> holders_of(std::span<const ShardedParameter* const> parameters, const ProcessGroup& group,
                                const at::Device& device);

}  // namespace modular
