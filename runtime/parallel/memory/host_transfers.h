// Copies between a device and host memory. On a GPU they use a side stream, which overlaps with the computation, and
// pinned memory; if the device is the CPU, they are plain copies.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>

namespace modular {

/// Allocates host memory that a GPU can copy from and to asynchronously (pinned).
at::Tensor empty_on_host(at::IntArrayRef sizes, at::ScalarType type, const at::Device& device);

/// Waits until the copies that were enqueued on the current stream of `device` have finished.
void wait_for_copies(const at::Device& device);

/// Returns `tensor` on `device`. Host memory is copied to a GPU asynchronously through pinned memory. The caller may
/// overwrite `tensor` immediately unless it is itself pinned.
inline at::Tensor copy_to_device(const at::Tensor& tensor, const at::Device& device) {
  if (tensor.device() == device) return tensor;
  return tensor.is_cpu() ? tensor.pin_memory().to(device, /*non_blocking=*/true) : tensor.to(device);
}

class HostTransfers {
 public:
  explicit HostTransfers(const at::Device& device);

  /// Returns `bytes` [n] in host memory. The caller may free `bytes` immediately.
  at::Tensor to_host(const at::Tensor& bytes);

  /// A copy to the device in flight.
  struct Arriving {
    at::Tensor bytes;
    std::optional<c10::Event> done = {};
  };
  Arriving to_device(const at::Tensor& host);
  /// Makes the current stream wait for the copy.
  at::Tensor arrived(Arriving arriving);

 private:
  /// Makes `side_` wait for all work enqueued on the current stream so far.
  void follow();
  at::Device device_;
  std::optional<c10::Stream> side_;
};

}  // namespace modular
