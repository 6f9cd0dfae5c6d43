// Watches the operations of a forward and tells SavedTensors how those were computed whose results the backward may
// compute again.
#pragma once

#include <ATen/record_function.h>

#include "runtime/model/fused.h"
#include "runtime/parallel/saved_tensors.h"

namespace modular {

/// "norm": results of rms_norm and layer norms. "activation": results of gated_activation, and of silu and gelu.
/// "attention": products of queries and keys, and what is made of them until values are mixed, where these are
/// operations of libtorch. A fused attention keeps none.
class WatchedOperations {
 public:
  /// Watches this thread for a scope. Null `saved`, or one that recomputes no operation: no effect.
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
