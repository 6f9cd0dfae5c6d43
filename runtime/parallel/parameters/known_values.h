// Whether tensors hold computed values.
#pragma once

namespace modular {

/// False on a thread that simulates a step on one rank, without arithmetic (runtime/plan). Numeric tensors, and data
/// from other ranks, are then undefined and must not cause errors.
inline thread_local bool values_are_known = true;

}  // namespace modular
