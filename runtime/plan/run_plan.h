// Predicts the memory and communication of a run's ranks by running its steps without arithmetic: the run's own model,
// units, pipeline and optimizer, whose tensors are allocated and freed as usual but neither written nor read, on ranks
// that do not exist.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/mesh/collectives.h"
#include "runtime/plan/memory_log.h"

namespace modular {

/// The plan of the ranks that hold the same stages: of the rank with the highest peak, which is the first along all
/// other axes.
struct RankPlan {
  int64_t rank = 0;             // in the mesh
  std::vector<int64_t> stages;  // pipeline stages; empty without a pipeline
  int64_t stored = 1;           // maximum number of micro-batches that wait for their backward
  MemoryLog::Peak start;        // during construction of the model
  MemoryLog::Peak step;         // during a training step, including the update
  int64_t checkpoint_copy = 0;  // bytes of the copy for background checkpoints
  /// Traffic that the rank receives in a step, by the groups it goes over; counted as in runtime/mesh/collectives.h.
  std::map<std::string, AxisTraffic> traffic;

  /// The peak in bytes of tensors and the checkpoint copy.
  int64_t peak() const { return std::max(start.bytes, step.bytes + checkpoint_copy); }
};

struct RunPlan {
  MeshShape mesh;
  BatchShape batch;
  std::vector<RankPlan> ranks;  // one per pp coordinate

  int64_t peak() const;  // the highest peak of all ranks
};

/// The plan of a run on CPUs, with the given train.micro_batches. It needs little memory and no process group. Not
/// counted: memory that libtorch and Gloo use in addition to tensors, scratch memory of single operations, memory that
/// grows with the number of threads, the batches of the next step, evaluations, and loading a checkpoint. Mixtures of
/// experts are assumed to send every expert the same number of tokens, and the matrix communication of `muon` is
/// underestimated. Throws ConfigError if the mesh or the batch is invalid, and DataError if data.format is "examples",
/// whose shapes come from the files, and the files cannot be read.
RunPlan make_run_plan(const RunConfig& config, int64_t world_size);

/// If train.micro_batches is 0, sets it to the smallest number with which no rank needs more than parallel.memory. If
/// parallel.memory is set, throws ConfigError if the run needs more.
void fit_memory(RunConfig& config, int64_t world_size);

}  // namespace modular
