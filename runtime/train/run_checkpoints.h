// The checkpoints of a run in training: when one is due, what it holds besides tensors, and how a run resumes from it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/checkpoint/checkpoint_saver.h"
#include "runtime/data/batches.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/parallel_model.h"
#include "runtime/train/folder_lock.h"
#include "runtime/train/preflight.h"
#include "runtime/train/validation.h"

namespace modular {

/// How far a run is. Checkpoints hold it.
struct Progress {
  int64_t step = 0;     // completed steps
  int64_t skipped = 0;  // of them, by train.on_nonfinite
  DataPosition position;
  BestEvaluation best;
};

class RunCheckpoints {
 public:
  /// All arguments must outlive it. `lock` is null on ranks that do not hold the folder.
  RunCheckpoints(Run& run, Mesh& mesh, ParallelModel& model, Optimizer& optimizer, const FolderLock* lock);

  /// Loads a checkpoint into model, optimizer and `progress`, except for its position in the data, which is returned: a
  /// run that rolls back does not meet the same data again. Throws std::runtime_error that names the file if its state
  /// is invalid. Collective.
  DataPosition restore(const std::filesystem::path& checkpoint, Progress& progress);

  /// Allocates the memory for background copies in advance.
  void reserve() { saver_.reserve_copies(slices_); }

  /// Whether checkpoint.every_minutes asks for a checkpoint, by rank 0's clock.
  bool minutes_have_passed() const;

  /// Begins a checkpoint, after the previous one is complete. Does nothing if checkpoint.every is -1. Collective.
  void save(const Progress& progress);

  /// Waits for a checkpoint in flight. Returns whether there was one. Collective.
  bool finish(int64_t step);

  /// Progress of this rank's part, of which go_on() takes the maximum over ranks.
  SaveProgress progress() const { return saver_.progress(); }
  void go_on(SaveProgress most) { report(saver_.go_on(most)); }

  /// Waits until the tensors may be written.
  void wait_for_copy() { saver_.wait_for_copy(); }

  /// The last checkpoint that was loaded or written; empty if there is none.
  const std::filesystem::path& newest() const { return newest_; }

 private:
  bool report(const std::optional<SavedCheckpoint>& saved);

  Run& run_;
  RunConfig& config_;
  Mesh& mesh_;
  ParallelModel& model_;
  Optimizer& optimizer_;
  const FolderLock* const lock_;
  std::vector<TensorSlice> slices_;  // parameters, then optimizer state
  CheckpointSaver saver_;
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();  // or started
  std::filesystem::path newest_;
  bool said_to_wait_ = false;  // that checkpoints are due faster than they are written
};

}  // namespace modular
