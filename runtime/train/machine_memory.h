// Whether this machine's memory holds what a run cannot do without.
#pragma once

#include <cstdint>

#include "runtime/config/config.h"

namespace modular {

/// Bytes of memory that processes here can have: the machine's with its swap space, or less where a control group
/// (a container's) allows less.
int64_t machine_memory();

/// The fewest bytes that a rank holds in a step: its part of the parameters, of their gradients and of the optimizer's
/// state, without activations and all else.
double least_memory(const RunConfig& config, const MeshShape& mesh);

/// Throws ConfigError where the `local_ranks` ranks of this machine need more than `memory` bytes for that alone, on
/// CPUs, or for what follows from the sizes of a batch.
void check_machine_memory(const RunConfig& config, const MeshShape& mesh, int64_t local_ranks, int64_t memory);

}  // namespace modular
