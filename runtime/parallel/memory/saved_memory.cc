#include "runtime/parallel/memory/saved_memory.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace modular {

at::Tensor get_bytes(const c10::Storage& storage) {
  const auto count = static_cast<int64_t>(storage.nbytes());
  const at::NoGradGuard no_grad;
  return at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage.device())).set_(storage, 0, {count}, {1});
}

const c10::Storage& SavedMemory::storage() {
  if (is_here()) return storage_;
  const at::NoGradGuard no_grad;
  if (recipe_) {
    std::vector<at::Tensor> inputs;
    std::ranges::transform(recipe_->inputs, std::back_inserter(inputs), &SavedTensor::read);
    storage_ = recipe_->function(inputs).storage();
  } else {
    fetch();
    storage_ = transfers_->arrived(*std::exchange(arriving_, std::nullopt)).storage();
  }
  return storage_;
}

void SavedMemory::recompute_by(std::shared_ptr<const Recipe> recipe) {
  recipe_ = std::move(recipe);
  storage_ = c10::Storage();
}

void SavedMemory::move_to_host(HostTransfers& transfers) {
  transfers_ = &transfers;
  host_ = transfers.to_host(get_bytes(storage_));
  storage_ = c10::Storage();
}

void SavedMemory::fetch() {
  if (!is_here() && !arriving_ && host_.defined()) arriving_ = transfers_->to_device(host_);
}

void SavedMemory::reader_done() {
  --readers_;
  trim();
}

void SavedMemory::trim() {
  if (readers_ == 0 && (recipe_ || host_.defined())) storage_ = c10::Storage();
}

SavedTensor::SavedTensor(const at::Tensor& tensor) {
  // Detached: the tensor that an operation returned holds the node that saves it.
  const at::NoGradGuard no_grad;
  itself_ = tensor.defined() && tensor.requires_grad() ? tensor.detach() : tensor;
}

SavedTensor::SavedTensor(const at::Tensor& tensor, std::shared_ptr<SavedMemory> memory)
    : memory_(std::move(memory)),
      options_(tensor.options()),
      sizes_(tensor.sizes().vec()),
      strides_(tensor.strides().vec()),
      offset_(tensor.storage_offset()),
      counter_(torch::autograd::impl::version_counter(tensor)),
      version_(counter_.current_version()) {}

at::Tensor SavedTensor::read() const {
  if (!memory_) return itself_;
  TORCH_CHECK(counter_.current_version() == version_, "a value of shape ", at::IntArrayRef(sizes_),
              " that the backward needs was modified in place after it was used, which parallel.recompute and "
              "parallel.offload do not allow");
  const at::NoGradGuard no_grad;
  at::Tensor tensor = at::empty({0}, options_).set_(memory_->storage(), offset_, sizes_, strides_);
  memory_->trim();
  return tensor;
}

}  // namespace modular
