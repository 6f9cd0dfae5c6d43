// What becomes of the tensors that autograd saves in a unit's forward: kept, computed again from what is kept
// (Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models), or moved to host memory until
// the unit's backward (Rhu et al., vDNN).
#pragma once

#include <ATen/ATen.h>

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/parallel/host_transfers.h"
#include "runtime/parallel/memory_options.h"
#include "runtime/parallel/saved_memory.h"

namespace modular {

/// What a unit's forward left in host memory.
class OffloadedUnit {
 public:
  /// Begins to bring it back, and what the unit left that ran before this one.
  void fetch() const;

 private:
  friend class SavedTensors;
  std::vector<std::weak_ptr<SavedMemory>> memory_;
  std::weak_ptr<const OffloadedUnit> before_;
};

class SavedTensors {
 public:
  /// `persistent` are tensors that live on in any case: parameters and buffers.
  SavedTensors(const Recomputation& recompute, const Offload& offload, const at::Device& device,
               const std::vector<at::Tensor>& persistent);

  bool recomputes(const std::string& operation) const { return operations_.contains(operation); }

  /// A forward of the model, or of a unit in it.
  class Frame {
   public:
    /// Null `saved`: no effect.
    Frame(SavedTensors* saved, const std::vector<at::Tensor>& inputs);
    ~Frame();
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;
    /// At its end: frees what can be computed again and, with `offload`, what is moved to host memory.
    std::shared_ptr<const OffloadedUnit> finish(bool offload);

   private:
    SavedTensors* saved_;
  };

  /// Whether a forward runs.
  bool is_active() const { return !frames_.empty(); }
  /// What stands for `tensor` from now on.
  SavedTensor keep(const at::Tensor& tensor);
  /// Tells how `output` was computed, without gradients. It is a tensor that fills a storage of its own.
  void record(const at::Tensor& output, const std::vector<at::Tensor>& inputs, Recipe::Function function,
              bool of_scores = false);
  /// Whether `tensor` was recorded as made of attention's scores.
  bool is_of_scores(const at::Tensor& tensor);
  bool is_persistent(const at::Tensor& tensor) const {
    return tensor.defined() && tensor.has_storage() && persistent_.contains(tensor.storage().unsafeGetStorageImpl());
  }

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> alive;  // so that no other storage gets this one's address
    std::shared_ptr<SavedMemory> memory;              // null where nothing asked for it yet
    std::shared_ptr<const Recipe> recipe;
    uint32_t version = 0;  // that the recipe gives
    bool of_scores = false;
  };
  struct Storages {
    std::deque<Entry> entries;  // in the order in which they were met
    std::unordered_map<const c10::StorageImpl*, Entry*> by_address;
    std::unordered_set<const c10::StorageImpl*> shared;  // of the unit's caller, who keeps them
    Entry& of(const at::Tensor& tensor);
  };

  std::unordered_set<std::string> operations_;
  Offload offload_;
  HostTransfers transfers_;
  std::unordered_set<const c10::StorageImpl*> persistent_;
  std::deque<Storages> frames_;  // the innermost last
  std::weak_ptr<const OffloadedUnit> last_;
};

/// Has autograd ask `saved`, which may be null, what to do with each tensor that it saves, for a scope.
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
