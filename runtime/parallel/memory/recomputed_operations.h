// Observes the operations of a forward and records in SavedTensors how to recompute those results that the backward may
// recompute.
#pragma once

#include <ATen/record_function.h>

#include "runtime/model/fused.h"
#include "runtime/parallel/memory/saved_tensors.h"

namespace modular {

/// "norm": results of rms_norm and layer norms. "activation": results of gated_activation, silu and gelu. "attention":
/// attention scores and all values derived from them up to the GEMM with the values, if these are libtorch operations.
/// A fused attention stores none of them.
class WatchedOperations {
 public:
  /// Observes this thread for a scope. Has no effect if `saved` is null or recomputes no operation.
  explicit WatchedOperations(SavedTensors* saved);
  ~WatchedOperations();
  WatchedOperations(const WatchedOperations&) = delete;
  WatchedOperations& operator=(const WatchedOperations&) = delete;

 private:
  bool watches_ = false;
  SavedTensors* outer_ = nullptr;
  FusedFunctions outer_functions_;
  at::CallbackHandle callback_ = 0;
};

}  // namespace modular
