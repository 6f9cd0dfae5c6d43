// Runs one rank without its peers and without arithmetic.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace modular {

// Process groups for a rank whose peers do not exist.

/// Shared by the ranks of a pipeline, which run one after another.
struct FakePeers {
  std::map<int, std::vector<int64_t>> shapes;   // activation shapes by tag, as their senders described them
  std::map<int, std::vector<int64_t>> guessed;  // shapes received before their sender ran, guessed from another stage

  /// Whether all guesses were right.
  bool guessed_right() const;
};

/// During its lifetime, this thread's meshes have groups whose collectives and messages complete immediately and do not
/// change their tensors.
class FakeGroups {
 public:
  explicit FakeGroups(std::shared_ptr<FakePeers> peers);
  ~FakeGroups();
  FakeGroups(const FakeGroups&) = delete;
  FakeGroups& operator=(const FakeGroups&) = delete;
};

// Fake tensors in host memory, which are allocated and freed as in a real run while nothing is computed (like PyTorch's
// FakeTensorMode).

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
