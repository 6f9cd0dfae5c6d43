// Fake tensors in host memory, which are allocated and freed as in a real run while nothing is computed (like PyTorch's
// FakeTensorMode).
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace modular {

/// During its lifetime, this thread's operations on floating-point tensors produce outputs of the right shape with
/// undefined values. Operations that only read integers and booleans are computed, unless they are larger than any
/// batch of tokens, so that counts and choices that depend on the batch are those of the run. A choice that depends on
/// floating-point values (which experts a token is sent to) is spread evenly. The fused operations of runtime/ops run
/// without their loops.
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
