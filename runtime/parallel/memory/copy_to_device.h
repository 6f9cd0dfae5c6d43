// Host-to-device copies.
#pragma once

#include <ATen/ATen.h>

namespace modular {

/// Returns `tensor` on `device`. Host memory is copied to a GPU asynchronously through pinned memory. The caller may
/// overwrite `tensor` immediately unless it is itself pinned.
inline at::Tensor copy_to_device(const at::Tensor& tensor, const at::Device& device) {
  if (tensor.device() == device) return tensor;
  return tensor.is_cpu() ? tensor.pin_memory().to(device, /*non_blocking=*/true) : tensor.to(device);
}

}  // namespace modular
