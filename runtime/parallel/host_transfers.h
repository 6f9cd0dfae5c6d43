// Copies between a device and the host's memory. On a GPU they run on a stream of their own beside the computation,
// through pinned memory; where the device is the CPU they are copies within its memory.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>

namespace modular {

/// Host memory that a GPU copies from and to without the processor's help.
at::Tensor empty_on_host(at::IntArrayRef sizes, at::ScalarType type, const at::Device& device);

/// Waits until copies that the current stream of `device` was given are done.
void wait_for_copies(const at::Device& device);

class HostTransfers {
 public:
  explicit HostTransfers(const at::Device& device);

  /// `bytes` [n] in host memory. They may be freed at once.
  at::Tensor to_host(const at::Tensor& bytes);

  /// A copy to the device under way.
  struct Arriving {
    at::Tensor bytes;
    std::optional<c10::Event> done = {};
  };
  Arriving to_device(const at::Tensor& host);
  /// Has the current stream wait for it.
  at::Tensor arrived(Arriving arriving);

 private:
  /// Has `side_` wait for what the current stream was given so far.
  void follow();
  at::Device device_;
  std::optional<c10::Stream> side_;
};

}  // namespace modular
