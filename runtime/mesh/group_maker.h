// How a rank is run whose peers are not there (runtime/plan).
#pragma once

#include <functional>

#include "runtime/mesh/rendezvous.h"

namespace modular {

/// Where this is set, meshes that this thread constructs have the groups that it makes and join no job.
inline thread_local std::function<ProcessGroup(const GroupSpec&)> group_maker;

}  // namespace modular
