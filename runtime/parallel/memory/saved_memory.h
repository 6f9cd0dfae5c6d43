// Tensors that a backward needs, separated from their memory, which may be recomputed or be in host memory until then.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/parallel/memory/host_transfers.h"

namespace modular {

struct Recipe;

/// Memory of one storage.
class SavedMemory {
 public:
  explicit SavedMemory(c10::Storage storage) : storage_(std::move(storage)) {}
  explicit SavedMemory(std::shared_ptr<const Recipe> recipe) : recipe_(std::move(recipe)) {}

  bool is_here() const { return static_cast<bool>(storage_); }
  const c10::Storage& held() const { return storage_; }
  /// Restores the storage if it is not on the device. It then stays there while readers remain.
  const c10::Storage& storage();
  /// Frees the storage until it is needed again.
  void recompute_by(std::shared_ptr<const Recipe> recipe);
  void move_to_host(HostTransfers& transfers);
  /// Starts to copy it from host memory if it is there.
  void fetch();

  void add_reader() { ++readers_; }
  void reader_done();
  /// Frees the storage if it can be restored and has no remaining readers.
  void trim();

 private:
  c10::Storage storage_;
  std::shared_ptr<const Recipe> recipe_;
  HostTransfers* transfers_ = nullptr;
  at::Tensor host_;  // bytes
  std::optional<HostTransfers::Arriving> arriving_;
  int64_t readers_ = 0;
};

/// A tensor in SavedMemory. Reading it throws if it was modified in place after it was saved.
class SavedTensor {
 public:
  SavedTensor() = default;
  /// Keeps the tensor itself.
  explicit SavedTensor(const at::Tensor& tensor);
  SavedTensor(const at::Tensor& tensor, std::shared_ptr<SavedMemory> memory);
  /// Returns the tensor, detached.
  at::Tensor read() const;
  const std::shared_ptr<SavedMemory>& memory() const { return memory_; }

 private:
  at::Tensor itself_;
  std::shared_ptr<SavedMemory> memory_;
  at::TensorOptions options_;
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_ = 0;
  c10::VariableVersion counter_;
  uint32_t version_ = 0;
};

/// How to compute a tensor that fills its storage.
struct Recipe {
  using Function = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;
  Function function;
  std::vector<SavedTensor> inputs;
};

/// Returns a byte tensor that views the storage.
at::Tensor get_bytes(const c10::Storage& storage);

}  // namespace modular
