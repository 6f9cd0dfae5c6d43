// Tensors in host memory that are made and freed as in a real run, while nothing is computed (fake tensors, as in
// PyTorch's FakeTensorMode).
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace modular {

/// While one lives, this thread's operations on floating-point tensors make outputs of the right shape and leave what
/// is in them undefined. What only reads integers and booleans is computed, unless they are as many as no batch has of
/// tokens, so that counts and choices that follow from the batch are those of the run; a choice that follows from
/// numbers (which experts a token goes to) is spread evenly. Fused operations of runtime/ops run without their loops.
class FakeKernels {
 public:
  FakeKernels();
  ~FakeKernels();
  FakeKernels(const FakeKernels&) = delete;
  FakeKernels& operator=(const FakeKernels&) = delete;

 private:
  c10::impl::IncludeDispatchKeyGuard included_;
};

}  // namespace modular
