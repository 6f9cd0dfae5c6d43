// Hook for running one rank without its peers (runtime/plan).
#pragma once

#include <functional>

#include "runtime/mesh/rendezvous.h"

namespace modular {

/// If set, meshes that this thread constructs get their groups from this function and join no job.
inline thread_local std::function<ProcessGroup(const GroupSpec&)> group_maker;

}  // namespace modular
