// What memory is allocated for, where who counts it (runtime/plan) could not tell by the time at which it lives.
#pragma once

#include <utility>

namespace modular {

enum class MemoryPurpose {
  by_time,             // as its lifetime says
  gathered,            // full parameters of which the rank keeps a part
  gradients,           // what the rank keeps for the optimizer
  unreduced_gradients  // full gradients, before and during their sum over ranks
};

inline thread_local MemoryPurpose memory_purpose = MemoryPurpose::by_time;

/// What this thread allocates in a scope is for `purpose`.
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
