// Copies to the device that computes.
#pragma once

#include <ATen/ATen.h>

namespace modular {

/// `tensor` on `device`. What is in host memory goes to a GPU through pinned memory, when the GPU comes to it: the host
/// does not wait, and may change `tensor` only where that is not pinned itself.
inline at::Tensor copy_to_device(const at::Tensor& tensor, const at::Device& device) {
  if (tensor.device() == device) return tensor;
  return tensor.is_cpu() ? tensor.pin_memory().to(device, /*non_blocking=*/true) : tensor.to(device);
}

}  // namespace modular
