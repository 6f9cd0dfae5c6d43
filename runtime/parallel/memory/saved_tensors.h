// Policy for the tensors that autograd saves in a unit's forward: keep them, recompute them from kept ones (Korthikanti
// et al., Reducing Activation Recomputation in Large Transformer Models), or offload them to host memory until the
// unit's backward (Rhu et al., vDNN).
#pragma once

#include <ATen/ATen.h>

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/parallel/memory/host_transfers.h"
#include "runtime/parallel/memory/memory_options.h"
#include "runtime/parallel/memory/saved_memory.h"

namespace modular {

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
  /// `persistent` are tensors that stay alive anyway: parameters and buffers.
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

}  // namespace modular
