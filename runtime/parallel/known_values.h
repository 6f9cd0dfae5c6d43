// Whether tensors hold what operations computed.
#pragma once

namespace modular {

/// False on a thread that runs a step without arithmetic, and on one rank alone (runtime/plan): what is in tensors of
/// numbers, or was to come from other ranks, is undefined there, and nothing is to be rejected for it.
inline thread_local bool values_are_known = true;

}  // namespace modular
