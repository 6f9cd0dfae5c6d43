// What a rank of a run will hold and exchange, found by running its steps without arithmetic: the run's own model,
// units, pipeline and optimizer, whose tensors are made and freed as ever, but neither filled nor read, on ranks that
// are not there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/mesh/traffic.h"
#include "runtime/plan/memory_log.h"

namespace modular {

/// Of the ranks that hold the same stages the one with the most, which is the first along all other axes.
struct RankPlan {
  int64_t rank = 0;             // in the mesh
  std::vector<int64_t> stages;  // of the pipeline; empty without one
  int64_t stored = 1;           // micro-batches that wait for their backward at most
  MemoryLog::Peak start;        // while the model is built
  MemoryLog::Peak step;         // of a training step, with its update
  int64_t checkpoint_copy = 0;  // bytes of the copy from which checkpoints are written in the background
  /// That it receives in a step, with the groups that they go over; as runtime/mesh/traffic.h counts.
  std::map<std::string, Exchanged> traffic;

  /// The most bytes of tensors, and of that copy, that it holds at once.
  int64_t peak() const { return std::max(start.bytes, step.bytes + checkpoint_copy); }
};

struct RunPlan {
  MeshShape mesh;
  BatchShape batch;
  std::vector<RankPlan> ranks;  // one for each coordinate on pp

  int64_t peak() const;  // of the fullest rank
};

/// The plan of a run on CPUs, with train.micro_batches as they are. Needs little memory and no process group. Not
/// counted: what libtorch and Gloo keep beside tensors, scratch memory of single operations, what grows with the number
/// of threads, the batches of the next step, evaluations, and what loading a checkpoint takes. Mixtures of experts are
/// taken to send every expert the same number of tokens, and what `muon` exchanges of matrices is counted too low.
/// Throws ConfigError where the mesh or the batch cannot be, and DataError where data.format is "examples", whose
/// shapes come from the files, and these cannot be read.
RunPlan make_run_plan(const RunConfig& config, int64_t world_size);

/// Where train.micro_batches is 0, sets it to the fewest with which no rank needs more than parallel.memory. Where that
/// is given, throws ConfigError if the run needs more.
void fit_memory(RunConfig& config, int64_t world_size);

}  // namespace modular
