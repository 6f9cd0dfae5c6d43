// Purpose of an allocation, for cases in which the memory counter (runtime/plan) cannot infer it from the lifetime.
#pragma once

#include <utility>

namespace modular {

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
