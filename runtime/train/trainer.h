// The training loop.
#pragma once

#include "runtime/mesh/mesh.h"
#include "runtime/train/preflight.h"
#include "runtime/train/save_signals.h"

namespace modular {

/// Trains `run` to its last step on `mesh`, whose shape is run.mesh. Called by every rank. Rank 0 writes into
/// train.dir:
///   config.toml      the resolved config
///   data.manifest    size and path of every data file
///   metrics.jsonl    one object per step (metrics.h)
///   checkpoints/     see checkpoint.h
///   tensorboard/     event files, if metrics.tensorboard is set (event_file.h)
/// and prints progress. Each rank writes trace/rank-<n>.json if metrics.trace is set (step_trace.h). The program's
/// hooks (hooks.h) are called on every rank. Returns 0, or the signal (save_signals.h) after which it wrote a
/// checkpoint and ended. Throws std::runtime_error if a step cannot continue (a loss that is not finite, data that has
/// changed, a checkpoint that cannot be written).
int train(Run& run, Mesh& mesh, SaveSignals& signals);

}  // namespace modular
