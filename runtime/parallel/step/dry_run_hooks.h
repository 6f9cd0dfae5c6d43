// Thread-local state that a dry run (runtime/plan) and the code that it runs share.
#pragma once

#include <utility>

namespace modular {

/// False on a thread that simulates a step on one rank, without arithmetic. Numeric tensors, and data from other ranks,
/// are then undefined and must not cause errors.
inline thread_local bool values_are_known = true;

/// Purpose of an allocation, for cases in which the memory counter cannot infer it from the lifetime.
enum class MemoryPurpose {
  by_time,             // inferred from the lifetime
  gathered,            // unsharded parameters
  gradients,           // reduced gradients for the optimizer
  unreduced_gradients  // unsharded gradients, before and during their reduction over ranks
};

inline thread_local MemoryPurpose memory_purpose = MemoryPurpose::by_time;

/// Sets the purpose of this thread's allocations for a scope.
class AllocatesFor {
 public:
  explicit AllocatesFor(MemoryPurpose purpose) : outer_(std::exchange(memory_purpose, purpose)) {}
  ~AllocatesFor() { memory_purpose = outer_; }
  AllocatesFor(const AllocatesFor&) = delete;
  AllocatesFor& operator=(const AllocatesFor&) = delete;

 private:
  MemoryPurpose outer_;
};

}  // namespace modular
