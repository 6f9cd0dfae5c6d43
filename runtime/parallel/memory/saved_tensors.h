// Policy for the tensors that autograd saves in a unit's forward: keep them, recompute them from kept ones (Korthikanti
// et al., Reducing Activation Recomputation in Large Transformer Models), or offload them to host memory until the
// unit's backward (Rhu et al., vDNN).
#pragma once

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/model/fused.h"
#include "runtime/parallel/memory/host_transfers.h"
#include "runtime/parallel/memory/memory_options.h"

namespace modular {

struct Recipe;

/// Memory of a storage that a backward needs. It may be recomputed or be in host memory until then. Its readers are the
/// nodes of graphs that need it: once restored, it stays until all of them have read it. In a split backward each of
/// them may read it twice; it is then restored for each half.
class SavedMemory {
 public:
  explicit SavedMemory(c10::Storage storage) : storage_(std::move(storage)) {}
  explicit SavedMemory(std::shared_ptr<const Recipe> recipe) : recipe_(std::move(recipe)) {}

  bool is_here() const { return static_cast<bool>(storage_); }
  const c10::Storage& held() const { return storage_; }
  /// Restores the storage if it is not on the device.
  const c10::Storage& storage();
  /// Frees the storage until it is needed again.
  void recompute_by(std::shared_ptr<const Recipe> recipe);
  void move_to_host(HostTransfers& transfers);
  /// Starts to copy it from host memory if it is there.
  void fetch();

  /// What a reader knows of its reads; 0 before the first.
  using LastRead = uint64_t;
  void add_reader() { ++readers_; }
  void count_read(LastRead& last);
  void remove_reader(LastRead last);
  /// Frees the storage if it can be restored and all readers have read it.
  void trim();

 private:
  c10::Storage storage_;
  std::shared_ptr<const Recipe> recipe_;
  HostTransfers* transfers_ = nullptr;
  at::Tensor host_;  // bytes
  std::optional<HostTransfers::Arriving> arriving_;
  int64_t readers_ = 0, reads_ = 0;  // reads by different readers since the storage was last freed
  LastRead times_freed_ = 1;
};

/// A tensor that a backward needs: itself, or in SavedMemory. Reading it throws if it was modified in place after it
/// was saved.
class SavedTensor {
 public:
  SavedTensor() = default;
  /// Keeps the tensor itself.
  explicit SavedTensor(const at::Tensor& tensor);
  SavedTensor(const at::Tensor& tensor, std::shared_ptr<SavedMemory> memory);
  /// Returns the tensor, detached.
  at::Tensor read() const;
  /// read(), for the last time: no longer holds the tensor itself.
  at::Tensor take();
  const std::shared_ptr<SavedMemory>& memory() const { return memory_; }

 private:
  void check_version(at::IntArrayRef sizes) const;

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

/// Activations that a unit's forward offloaded to host memory.
class OffloadedUnit {
 public:
  /// Starts to copy them back, and prefetches those of the unit that ran before this one.
  void fetch() const;

 private:
  friend class SavedTensors;
  std::vector<std::weak_ptr<SavedMemory>> memory_;
  std::weak_ptr<const OffloadedUnit> before_;
};

class SavedTensors {
 public:
  /// The object that decides about the tensors of the graph that this thread records; null if there is none.
  static SavedTensors* recording();

  /// `persistent` are tensors that stay alive anyway: parameters and buffers. Without operations to recompute and
  /// activations to offload, only tensors of record() are not kept as they are.
  SavedTensors(const Recomputation& recompute, const Offload& offload, const at::Device& device,
               const std::vector<at::Tensor>& persistent);

  bool recomputes(const std::string& operation) const { return operations_.contains(operation); }

  /// Scope of a forward of the model or of one of its units.
  class Frame {
   public:
    /// No effect if `saved` is null.
    Frame(SavedTensors* saved, const std::vector<at::Tensor>& inputs);
    ~Frame();
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;
    /// Call at the end of the forward: frees what can be recomputed and, with `offload`, what is moved to host memory.
    std::shared_ptr<const OffloadedUnit> finish(bool offload);

   private:
    SavedTensors* saved_;
  };

  /// Whether a forward is running.
  bool is_active() const { return !frames_.empty(); }
  /// Returns the object that is saved instead of `tensor`.
  SavedTensor keep(const at::Tensor& tensor);
  /// Records how to recompute `output`, without gradients. It must fill a storage of its own.
  void record(const at::Tensor& output, const std::vector<at::Tensor>& inputs, Recipe::Function function,
              bool from_scores = false);
  /// Whether `tensor` was recorded as derived from attention scores.
  bool is_from_scores(const at::Tensor& tensor);
  bool is_persistent(const at::Tensor& tensor) const {
    return tensor.defined() && tensor.has_storage() && persistent_.contains(tensor.storage().unsafeGetStorageImpl());
  }

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> alive;  // prevents another storage from getting the same address
    std::shared_ptr<SavedMemory> memory;              // null until first needed
    std::shared_ptr<const Recipe> recipe;
    uint32_t version = 0;  // version that the recipe computes
    bool from_scores = false;
  };
  struct Storages {
    std::deque<Entry> entries;  // in the order of first use
    std::unordered_map<const c10::StorageImpl*, Entry*> by_address;
    std::unordered_set<const c10::StorageImpl*> shared;  // owned by the unit's caller, which keeps them alive
    Entry& entry_for(const at::Tensor& tensor);
    Entry* find(const at::Tensor& tensor);  // null if it is not known
  };

  std::unordered_set<std::string> operations_;
  Offload offload_;
  HostTransfers transfers_;
  std::unordered_set<const c10::StorageImpl*> persistent_;
  std::deque<Storages> frames_;  // innermost last
  std::weak_ptr<const OffloadedUnit> last_;
};

/// Makes autograd use `saved`, which may be null, for the tensors that it saves in a scope.
class InstalledSavedTensors {
 public:
  explicit InstalledSavedTensors(SavedTensors* saved);
  ~InstalledSavedTensors();
  InstalledSavedTensors(const InstalledSavedTensors&) = delete;
  InstalledSavedTensors& operator=(const InstalledSavedTensors&) = delete;

 private:
  SavedTensors* outer_;
};

/// Observes the operations of a forward and records in SavedTensors how to recompute those results that the backward
/// may recompute. "norm": results of rms_norm and layer norms. "activation": results of gated_activation, silu and
/// gelu. "attention": attention scores and all values derived from them up to the GEMM with the values, if these are
/// libtorch operations. A fused attention stores none of them.
class WatchedOperations {
 public:
  /// Observes this thread for a scope. Has no effect if `saved` is null or recomputes no operation.
  explicit WatchedOperations(SavedTensors* saved);
  ~WatchedOperations();
  WatchedOperations(const WatchedOperations&) = delete;
  WatchedOperations& operator=(const WatchedOperations&) = delete;

 private:
  bool watches_ = false;
  SavedTensors* outer_ = nullptr;
  FusedFunctions outer_functions_;
  at::CallbackHandle callback_ = 0;
};

}  // namespace modular
