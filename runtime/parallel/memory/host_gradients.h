// Gradients in host memory, for an optimizer that updates on the CPU.
#pragma once

#include <vector>

#include "runtime/parallel/memory/host_transfers.h"
#include "runtime/parallel/parameters/sharded_parameter.h"

namespace modular {

class HostGradients {
 public:
  /// Moves the reduced gradients of `slices` from `device` into host buffers that this object owns.
  void take(std::vector<ShardedParameter>& slices, const at::Device& device) {
    gradients_.resize(slices.size());
    for (size_t i = 0; i < slices.size(); ++i) {
      if (!slices[i].grad.defined()) continue;
      if (!gradients_[i].defined()) gradients_[i] = empty_on_host(slices[i].grad.sizes(), at::kFloat, device);
      slices[i].grad = gradients_[i].copy_(slices[i].grad, /*non_blocking=*/true);
    }
    wait_for_copies(device);
  }

 private:
  std::vector<at::Tensor> gradients_;  // parallel to slices; reused in every step
};

}  // namespace modular
