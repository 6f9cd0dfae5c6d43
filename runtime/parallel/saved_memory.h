// Tensors that a backward needs, apart from the memory that they lie in, which may be computed again or be in host
// memory until then.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/parallel/host_transfers.h"

namespace modular {

struct Recipe;

/// The memory of one storage.
class SavedMemory {
 public:
  explicit SavedMemory(c10::Storage storage) : storage_(std::move(storage)) {}
  explicit SavedMemory(std::shared_ptr<const Recipe> recipe) : recipe_(std::move(recipe)) {}

  bool is_here() const { return static_cast<bool>(storage_); }
  const c10::Storage& held() const { return storage_; }
  /// Makes it what it was, where it is not here. Stays here while readers are to come.
  const c10::Storage& storage();
  /// Frees it until it is asked for.
  void recompute_by(std::shared_ptr<const Recipe> recipe);
  void move_to_host(HostTransfers& transfers);
  /// Begins to copy it from host memory, where it is there.
  void fetch();

  void add_reader() { ++readers_; }
  void reader_done();
  /// Frees what can be made again and no reader is known to ask for.
  void trim();

 private:
  c10::Storage storage_;
  std::shared_ptr<const Recipe> recipe_;
  HostTransfers* transfers_ = nullptr;
  at::Tensor host_;  // bytes
  std::optional<HostTransfers::Arriving> arriving_;
  int64_t readers_ = 0;
};

/// A tensor in such memory. Reading it fails where it was written in place since.
class SavedTensor {
 public:
  SavedTensor() = default;
  /// Keeps the tensor itself.
  explicit SavedTensor(const at::Tensor& tensor);
  SavedTensor(const at::Tensor& tensor, std::shared_ptr<SavedMemory> memory);
  /// Without history.
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

/// How a tensor that fills its storage was computed.
struct Recipe {
  using Function = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;
  Function function;
  std::vector<SavedTensor> inputs;
};

/// The bytes of a storage.
at::Tensor get_bytes(const c10::Storage& storage);

}  // namespace modular
