#include "tests/support/counted_device.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

namespace modular::testing {
namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;

constexpr c10::DeviceType kCounted = c10::DeviceType::PrivateUse1;
const c10::Device kDevice(kCounted, 0);

std::mutex mutex;
std::atomic<bool> watched = false;
std::vector<std::string> noted;

void note(std::string what) {
  const std::lock_guard lock(mutex);
  if (watched) noted.push_back(std::move(what));
}

/// Holds host memory that `owner` owns, as memory of `device`.
template <class Owner>
c10::DataPtr shared_memory(void* data, Owner owner, c10::Device device) {
  return {data, new Owner(std::move(owner)), [](void* held) { delete static_cast<Owner*>(held); }, device};
}

class Memory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr host = c10::GetCPUAllocator()->allocate(bytes);
    void* const data = host.get();
    return shared_memory(data, std::make_shared<c10::DataPtr>(std::move(host)), kDevice);
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return {}; }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
};
Memory memory;
REGISTER_ALLOCATOR(kCounted, &memory)

/// Host memory that is known to be pinned.
class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    struct Pinned {
      PinnedMemory* of;
      c10::DataPtr memory;
      ~Pinned() {
        const std::lock_guard lock(of->mutex_);
        of->begins_.erase(memory.get());
      }
    };
    c10::DataPtr host = c10::GetCPUAllocator()->allocate(bytes);
    void* const data = host.get();
    const std::lock_guard lock(mutex_);
    begins_.insert(data);
    return shared_memory(data, std::shared_ptr<Pinned>(new Pinned{this, std::move(host)}), at::kCPU);
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  bool holds(const void* begin) const {
    const std::lock_guard lock(mutex_);
    return begins_.contains(begin);
  }

 private:
  mutable std::mutex mutex_;
  std::set<const void*> begins_;
};
PinnedMemory pinned_memory;

struct HooksOfCounted final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isPinnedPtr(const void* data) const override { return pinned_memory.holds(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
};

/// One stream, on which all that was asked for is done.
struct GuardOfCounted final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kCounted; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, kDevice); }
  c10::Stream getDefaultStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, kDevice); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    return c10::Stream(c10::Stream::DEFAULT, kDevice);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
  void synchronizeStream(const c10::Stream&) const override { note("a stream"); }
  void synchronizeDevice(c10::DeviceIndex) const override { note("the device"); }
  void synchronizeEvent(void*) const override { note("an event"); }
};

bool is_counted(const Tensor& tensor) { return tensor.defined() && tensor.device().type() == kCounted; }

/// The tensor's memory as a tensor in host memory.
Tensor on_host(const Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  c10::Storage host(c10::Storage::use_byte_size_t(), storage.nbytes(),
                    shared_memory(storage.mutable_data(), storage, at::kCPU), c10::GetCPUAllocator(),
                    /*resizable=*/true);
  Tensor alias = at::detail::make_tensor<c10::TensorImpl>(std::move(host), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                          tensor.dtype());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) alias.unsafeGetTensorImpl()->set_wrapped_number(true);
  return alias;
}

Tensor with_storage(c10::Storage storage, const Tensor& like) {
  Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), like.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return tensor;
}

/// The arguments of one operation that are on the device, each with its alias in host memory.
class Aliases {
 public:
  Tensor to_host(const Tensor& tensor) {
    if (!is_counted(tensor)) return tensor;
    pairs_.emplace_back(tensor, on_host(tensor));
    return pairs_.back().second;
  }
  /// What a result in host memory is on the device: an argument, a view of one, or memory of its own.
  Tensor to_device(const Tensor& result) const {
    if (!result.defined() || !result.is_cpu()) return result;
    for (const auto& [device, host] : pairs_)
      if (host.is_same(result)) return device;
    for (const auto& [device, host] : pairs_)
      if (host.storage().data() == result.storage().data() && result.storage().nbytes() > 0)
        return with_storage(device.storage(), result);
    const c10::Storage& storage = result.storage();
    return with_storage(c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(),
                                     shared_memory(storage.mutable_data(), storage, kDevice), &memory,
                                     /*resizable=*/true),
                        result);
  }
  /// Gives arguments the memory and the sizes that the operation gave their aliases.
  void take_over_sizes() const {
    for (const auto& [device, host] : pairs_) {
      if (host.storage().data() != device.storage().data()) {
        c10::StorageImpl* const storage = device.storage().unsafeGetStorageImpl();
        storage->set_data_ptr_noswap(shared_memory(host.storage().mutable_data(), host.storage(), kDevice));
        storage->set_nbytes(host.storage().nbytes());
      }
      if (host.sizes() != device.sizes() || host.strides() != device.strides() ||
          host.storage_offset() != device.storage_offset())
        device.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
    }
  }

 private:
  std::vector<std::pair<Tensor, Tensor>> pairs_;
};

template <class Change>
IValue with_tensors(const IValue& value, const Change& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorVector()) list.push_back(change(tensor));
    return list;
  }
  if (value.isList() && value.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<Tensor>> list;
    for (const IValue& element : value.toListRef())
      list.push_back(element.isTensor() ? std::optional(change(element.toTensor())) : std::nullopt);
    return list;
  }
  if (value.isDevice() && value.toDevice().type() == kCounted) return at::Device(at::kCPU);
  return value;
}

/// Operations whose results are read by the host, or are as large as their values say.
constexpr std::array<std::string_view, 12> kWaitingOperations = {"aten::_local_scalar_dense",
                                                                 "aten::nonzero",
                                                                 "aten::masked_select",
                                                                 "aten::_unique",
                                                                 "aten::_unique2",
                                                                 "aten::unique_dim",
                                                                 "aten::bincount",
                                                                 "aten::equal",
                                                                 "aten::unique_consecutive",
                                                                 "aten::repeat_interleave",
                                                                 "aten::is_set_to",
                                                                 "aten::allclose"};

/// Indices by truths are looked for.
bool has_truths(const IValue& value) {
  if (!value.isList() || value.isTensorList()) return false;
  return std::ranges::any_of(value.toListRef(), [](const IValue& element) {
    return element.isTensor() && element.toTensor().defined() && element.toTensor().scalar_type() == at::kBool;
  });
}

void run_on_host(const c10::OperatorHandle& op, Stack* stack) {
  const auto& schema = op.schema();
  const std::string_view name = schema.name();
  Stack arguments = torch::jit::pop(*stack, schema.arguments().size());
  if (std::ranges::find(kWaitingOperations, name) != kWaitingOperations.end() ||
      (name.starts_with("aten::index") && std::ranges::any_of(arguments, has_truths)))
    note(schema.name());
  Aliases aliases;
  Stack on_host;
  for (const IValue& argument : arguments)
    on_host.push_back(with_tensors(argument, [&](const Tensor& tensor) { return aliases.to_host(tensor); }));
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    op.callBoxed(&on_host);
  }
  aliases.take_over_sizes();
  for (const IValue& result : on_host)
    stack->push_back(with_tensors(result, [&](const Tensor& tensor) { return aliases.to_device(tensor); }));
}

Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), &memory,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::get_default_dtype_as_scalartype()), format);
}

Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, std::optional<at::ScalarType> type,
                     std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides), &memory,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::get_default_dtype_as_scalartype()));
}

/// A copy to host memory is waited for even if it is said not to block: whoever reads it would have to.
Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  if (!is_counted(to)) note("a copy to the host");
  if (!is_counted(from) && !(non_blocking && pinned_memory.holds(from.storage().data()))) {
    // Numbers that the host knows travel with the operation that fills memory with them.
    if (from.dim() > 0) note("a copy from memory that is not pinned");
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Tensor target = is_counted(to) ? on_host(to) : to;
  target.copy_(is_counted(from) ? on_host(from) : from);
  return to;
}

// Convolutions ask a device of this kind for its own.
Tensor convolution(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, at::IntArrayRef stride,
                   at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                   int64_t groups) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Aliases aliases;
  const std::optional<Tensor> own_bias = bias && bias->defined() ? std::optional(aliases.to_host(*bias)) : std::nullopt;
  return aliases.to_device(at::convolution(aliases.to_host(x), aliases.to_host(weight), own_bias, stride, padding,
                                           dilation, transposed, output_padding, groups));
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& gradient, const Tensor& x, const Tensor& weight,
                                                        at::IntArrayRef stride, at::IntArrayRef padding,
                                                        at::IntArrayRef dilation, bool transposed,
                                                        at::IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> wanted) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Aliases aliases;
  const auto [of_x, of_weight, of_bias] = at::convolution_backward(
      aliases.to_host(gradient), aliases.to_host(x), aliases.to_host(weight), at::IntArrayRef({weight.size(0)}), stride,
      padding, dilation, transposed, output_padding, groups, wanted);
  return {aliases.to_device(of_x), aliases.to_device(of_weight), aliases.to_device(of_bias)};
}

Tensor& set_storage(Tensor& tensor, c10::Storage storage, c10::SymInt offset, c10::SymIntArrayRef sizes,
                    c10::SymIntArrayRef strides) {
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                                      offset.expect_int());
  return tensor;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("convolution_overrideable", convolution);
  library.impl("convolution_backward_overrideable", convolution_backward);
}

}  // namespace

c10::Device counted_device() {
  static const bool registered = [] {
    static HooksOfCounted hooks;
    static const GuardOfCounted guard;
    c10::register_privateuse1_backend("counted");
    at::RegisterPrivateUse1HooksInterface(&hooks);
    c10::impl::device_guard_impl_registry[static_cast<size_t>(kCounted)].store(&guard);
    return true;
  }();
  return registered ? kDevice : c10::Device(at::kCPU);
}

Tensor to_host_memory(const Tensor& tensor) { return on_host(tensor); }

WatchedHost::WatchedHost() {
  take();
  watched = true;
}
WatchedHost::~WatchedHost() { watched = false; }

std::vector<std::string> WatchedHost::take() {
  const std::lock_guard lock(mutex);
  return std::exchange(noted, {});
}

std::vector<std::string> host_waits(const std::function<void()>& body) {
  WatchedHost host;
  body();
  return host.take();
}

}  // namespace modular::testing
