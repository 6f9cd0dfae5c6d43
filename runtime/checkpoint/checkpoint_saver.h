// Saves a run's checkpoints while the run continues: the tensors are copied, and a thread writes the copies.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"

namespace modular {

// Copies tensors to host memory while the tensors are read; the memory is kept for the next copy.

/// Several threads copy together: each takes the next piece that no thread has begun.
class HostCopy {
 public:
  /// Allocates and touches the memory for a copy of `sources`: first use of memory takes longer than copying. Throws
  /// std::runtime_error if allocation fails.
  void reserve(const std::vector<at::Tensor>& sources);

  /// Returns tensors of the same sizes and types as `sources`, which hold their values from the return of run() until
  /// the next call. The sources must not be written before that. Throws std::runtime_error if allocation fails.
  std::vector<at::Tensor> begin(const std::vector<at::Tensor>& sources);

  /// Copies what is left, together with other threads in run(), and returns when everything is copied. Of two calling
  /// threads, the one that does not compute the steps passes `among_others`, and then uses no thread but its own.
  void run(bool among_others);

 private:
  struct Piece {
    at::Tensor to, from;
  };

  /// Makes room for copies of `sources`, and returns the offset of each in the memory.
  std::vector<size_t> make_room(const std::vector<at::Tensor>& sources);

  std::shared_ptr<std::byte> memory_;
  size_t capacity_ = 0;
  std::vector<Piece> pieces_;
  std::atomic<size_t> begun_ = 0, done_ = 0;  // numbers of pieces
};

struct SaveOptions {
  std::filesystem::path folder;  // folder of all checkpoints
  int64_t keep_last = 0;         // keeps only this many of the newest; 0 keeps all
  bool background = true;        // false: finish() does everything, directly from the tensors
  bool full = false;             // also runs write_pretrained() into each checkpoint
  bool shared = true;            // false: only rank 0 has the folder, and writes what the other ranks send
};

struct SavedCheckpoint {
  int64_t step = 0;
  std::filesystem::path folder;
};

/// Progress of a rank's part of a stage, which all ranks complete before any continues.
enum class SaveProgress : int64_t { done, under_way, failed };

/// Prepares, writes and completes one checkpoint at a time. The ranks agree before each of these stages without a
/// collective of their own: whenever the run all-reduces numbers anyway, it includes the maximum of progress() and
/// passes it to go_on(). All members throw std::runtime_error on every rank if any rank cannot write; the checkpoint is
/// then incomplete and does not count, and older checkpoints are unchanged.
class CheckpointSaver {
 public:
  /// `model` and `mesh` must outlive it. Collective if the folder is not shared.
  CheckpointSaver(SaveOptions options, const ModelConfig& model, Mesh& mesh);

  /// Starts a low-priority thread that allocates the memory for background copies of these tensors, so that no save
  /// waits for it. Does nothing if no copies are made. Called once, before the first save.
  void reserve_copies(std::span<const TensorSlice> tensors);

  /// Begins to save the current values of the tensors and the current states of this rank's random generators, as
  /// save_checkpoint() does. No other save may be in progress. The tensors must not be written before wait_for_copy()
  /// returns.
  void begin(TrainingState state, std::span<const TensorSlice> tensors);

  /// Returns when the tensors may be written, after helping to copy the rest.
  void wait_for_copy() { copy_.run(/*among_others=*/false); }

  SaveProgress progress() const { return progress_; }

  /// Starts the next stage once all ranks have done their parts. `slowest` is the maximum of progress() over all
  /// ranks. Returns the checkpoint when it is complete.
  std::optional<SavedCheckpoint> go_on(SaveProgress slowest);

  /// Completes and returns the checkpoint in progress; nullopt if there is none. Collective over the world.
  std::optional<SavedCheckpoint> finish();

 private:
  enum class Stage { idle, preparing, writing, completing };

  void start(Stage stage);
  void work();
  void write_files(const std::filesystem::path& folder);

  const SaveOptions options_;
  const ModelConfig& model_;
  Mesh& mesh_;
  const ProcessGroup messages_;  // null if the folder is shared or the world size is 1

  Stage stage_ = Stage::idle;
  TrainingState state_;
  std::vector<TensorSlice> slices_;  // slices that this rank writes; in the memory of copy_ if copies are made
  std::vector<std::pair<std::string, at::Tensor>> generators_;
  HostCopy copy_;
  std::future<void> reserving_;  // allocation of copy_'s memory
  std::atomic<SaveProgress> progress_ = SaveProgress::done;
  std::future<void> work_;  // of the stage; declared last, so that the thread ends before the members it uses
};

}  // namespace modular
