// The training loop.
#pragma once

#include "runtime/mesh/mesh.h"
#include "runtime/train/preflight.h"
#include "runtime/train/save_signals.h"

namespace modular {

/// Trains `run` to its last step on `mesh`, whose shape is run.mesh. Every rank calls it. Rank 0 writes into train.dir:
///   config.toml      the resolved config
///   data.manifest    size and path of every data file
///   metrics.jsonl    one object a step (metrics.h)
///   checkpoints/     as checkpoint.h says
///   tensorboard/     event files, where metrics.tensorboard asks for them (event_file.h)
/// and prints progress. Each rank writes trace/rank-<n>.json, where metrics.trace asks for it (step_trace.h). Hooks of
/// the program (hooks.h) are called on every rank. Returns 0; or the signal (save_signals.h) after which it wrote a
/// checkpoint and ended. Throws std::runtime_error if a step cannot continue (a loss that is not
/// finite, data that has changed, a checkpoint that cannot be written).
int train(Run& run, Mesh& mesh, SaveSignals& signals);

}  // namespace modular
