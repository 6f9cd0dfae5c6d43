// A device made of host memory that notes for what the host would have to wait, were it a GPU: tests of what keeps a
// GPU busy need none. It is libtorch's PrivateUse1, "counted". Its operations are those of the CPU, on the same memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <string>
#include <vector>

namespace modular::testing {

/// The device, made at the first call.
c10::Device counted_device();

/// The memory of a tensor on the device as a tensor in host memory.
at::Tensor to_host_memory(const at::Tensor& tensor);

/// Notes what the host waits for while it lives; one at a time. That is operations whose result the host reads
/// ("aten::_local_scalar_dense") or whose result's size it has to know ("aten::nonzero"), copies to host memory, those
/// from memory that is not pinned, and whatever synchronizes a stream.
class WatchedHost {
 public:
  WatchedHost();
  ~WatchedHost();
  WatchedHost(const WatchedHost&) = delete;
  WatchedHost& operator=(const WatchedHost&) = delete;

  /// What it has waited for since the last call, in order.
  std::vector<std::string> take();
};

/// What the host waited for while `body` ran.
std::vector<std::string> host_waits(const std::function<void()>& body);

}  // namespace modular::testing
