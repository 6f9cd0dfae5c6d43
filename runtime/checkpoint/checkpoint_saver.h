// Saves a run's checkpoints while the run continues: what is saved is copied, and then written by a thread.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <optional>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/host_copy.h"

namespace modular {

struct SaveOptions {
  std::filesystem::path folder;  // of all checkpoints
  int64_t keep_last = 0;         // removes all but so many of the newest; 0 keeps all
  bool background = true;        // false: everything is done in finish(), from the tensors themselves
  bool full = false;             // write_pretrained into each checkpoint besides
  bool shared = true;            // false: rank 0 alone has the folder, and writes what the others send
};

struct SavedCheckpoint {
  int64_t step = 0;
  std::filesystem::path folder;
};

/// How far a rank is with its part of what all ranks do before any continues.
enum class SaveProgress : int64_t { done, under_way, failed };

/// Prepares, writes and completes one checkpoint at a time. The ranks agree before each of these, which costs no
/// exchange of its own: the run exchanges the largest progress() whenever it exchanges numbers in any case, and passes
/// it to go_on(). All throw std::runtime_error, on every rank, where one rank could not write; a checkpoint that was
/// not completed is no checkpoint then, and the older ones are as they were.
class CheckpointSaver {
 public:
  /// `model` and `mesh` outlive it. Collective where the folder is not shared.
  CheckpointSaver(SaveOptions options, const ModelConfig& model, Mesh& mesh);

  /// Has a thread of low priority get the memory for background copies of these tensors, so that no save waits for it.
  /// Nothing where none are made. Called once, before the first save.
  void reserve_copies(std::span<const TensorSlice> tensors);

  /// Begins to save the tensors' present values, and the present states of this rank's random generators, as
  /// save_checkpoint does. None is being saved. Nobody may write the tensors before wait_for_copy() has returned.
  void begin(TrainingState state, std::span<const TensorSlice> tensors);

  /// Returns when the tensors may be written, having helped to copy what was not copied yet.
  void wait_for_copy() { copy_.run(/*among_others=*/false); }

  SaveProgress progress() const { return progress_; }

  /// Goes on where all ranks are done with their parts; `of_slowest` is the largest progress() of all, the same on all.
  /// Returns the checkpoint when it is complete.
  std::optional<SavedCheckpoint> go_on(SaveProgress of_slowest);

  /// Completes what was begun, and returns it; nothing where nothing was. Collective over the world.
  std::optional<SavedCheckpoint> finish();

 private:
  enum class Stage { idle, preparing, writing, completing };

  void start(Stage stage);
  void work();
  void write_files(const std::filesystem::path& folder);

  const SaveOptions options_;
  const ModelConfig& model_;
  Mesh& mesh_;
  const ProcessGroup messages_;  // null where the folder is shared, and in a world of one

  Stage stage_ = Stage::idle;
  TrainingState state_;
  std::vector<TensorSlice> slices_;  // that this rank writes, in the memory of copy_ where there are copies
  std::vector<std::pair<std::string, at::Tensor>> generators_;
  HostCopy copy_;
  std::future<void> reserving_;  // the memory of copy_
  std::atomic<SaveProgress> progress_ = SaveProgress::done;
  std::future<void> work_;  // of the stage; the last member, so that the thread ends before what it uses
};

}  // namespace modular
