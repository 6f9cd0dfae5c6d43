// Checks the machine's memory against the minimum that a run needs.
#pragma once

#include <cstdint>

#include "runtime/config/config.h"

namespace modular {

/// Bytes of memory available to processes on this machine: RAM plus swap, or less if a control group (a container)
/// limits it.
int64_t machine_memory();

/// Lower bound of a rank's memory during a step, in bytes: its shard of parameters, gradients and optimizer state,
/// without activations and anything else.
double least_memory(const RunConfig& config, const MeshShape& mesh);

/// On CPU, throws ConfigError if the `local_ranks` ranks of this machine need more than `memory` bytes for that, or for
/// buffers whose size follows from the batch.
void check_machine_memory(const RunConfig& config, const MeshShape& mesh, int64_t local_ranks, int64_t memory);

}  // namespace modular
