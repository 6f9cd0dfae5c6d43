// The training loop, and callbacks of a user's own program during training.
#pragma once

#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/metrics/metrics.h"
#include "runtime/train/preflight.h"
#include "runtime/train/save_signals.h"

namespace modular {

/// Called on every rank at the same point of the run, so that a hook may communicate over the mesh. Empty hooks are
/// skipped. An exception from a hook ends the run as its own errors do.
struct Hooks {
  /// After a step. All ranks get the same numbers, except for `seconds` and values derived from it.
  std::function<void(const StepMetrics&, Mesh&)> on_step;
  /// After an evaluation on validation samples.
  std::function<void(const Evaluation&, Mesh&)> on_evaluation;
  /// When the checkpoint of `step` is complete in `folder`, some steps later if it was written in the background. With
  /// checkpoint.shared = false only rank 0 has that folder.
  std::function<void(int64_t step, const std::filesystem::path& folder, Mesh&)> on_checkpoint;
};

/// The hooks of this program, in the order of registration.
inline std::vector<Hooks>& hooks() {
  static std::vector<Hooks> registered;
  return registered;
}

/// Registers hooks for every run that this program trains. The return value only serves as a static initializer: `const
/// bool registered = modular::register_hooks({.on_step = …});`
inline bool register_hooks(Hooks added) {
  hooks().push_back(std::move(added));
  return true;
}

/// Trains `run` to its last step on `mesh`, whose shape is run.mesh. Called by every rank. Rank 0 writes into
/// train.dir:
///   config.toml      the resolved config
///   data.manifest    size and path of every data file
///   metrics.jsonl    one object per step (metrics.h)
///   checkpoints/     see checkpoint.h
///   tensorboard/     event files, if metrics.tensorboard is set (event_file.h)
/// and prints progress. Each rank writes trace/rank-<n>.json if metrics.trace is set (step_trace.h). The program's
/// hooks are called on every rank. Returns 0, or the signal (save_signals.h) after which it wrote a
/// checkpoint and ended. Throws std::runtime_error if a step cannot continue (a loss that is not finite, data that has
/// changed, a checkpoint that cannot be written).
int train(Run& run, Mesh& mesh, SaveSignals& signals);

}  // namespace modular
