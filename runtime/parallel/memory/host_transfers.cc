#include "runtime/parallel/memory/host_transfers.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace modular {

at::Tensor empty_on_host(at::IntArrayRef sizes, at::ScalarType type, const at::Device& device) {
  return at::empty(sizes, at::TensorOptions().dtype(type).pinned_memory(!device.is_cpu()));
}

void wait_for_copies(const at::Device& device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

HostTransfers::HostTransfers(const at::Device& device) : device_(device) {
  if (!device.is_cpu()) side_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

void HostTransfers::follow() {
  c10::Event ready(device_.type());
  ready.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  ready.block(*side_);
}

at::Tensor HostTransfers::to_host(const at::Tensor& bytes) {
  at::Tensor host = empty_on_host(bytes.sizes(), at::kByte, device_);
  if (!side_) return host.copy_(bytes);
  follow();
  const c10::StreamGuard guard(*side_);
  host.copy_(bytes, /*non_blocking=*/true);
  // The allocator must not reuse the memory before the copy is done.
  c10::impl::VirtualGuardImpl(device_.type()).recordDataPtrOnStream(bytes.storage().data_ptr(), *side_);
  return host;
}

HostTransfers::Arriving HostTransfers::to_device(const at::Tensor& host) {
  Arriving arriving{at::empty(host.sizes(), host.options().device(device_).pinned_memory(false))};
  if (!side_) {
    arriving.bytes.copy_(host);
    return arriving;
  }
  follow();  // the current stream may still use the destination memory
  const c10::StreamGuard guard(*side_);
  arriving.bytes.copy_(host, /*non_blocking=*/true);
  arriving.done.emplace(device_.type()).record(*side_);
  return arriving;
}

at::Tensor HostTransfers::arrived(Arriving arriving) {
  if (arriving.done) arriving.done->block(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return std::move(arriving.bytes);
}

}  // namespace modular
