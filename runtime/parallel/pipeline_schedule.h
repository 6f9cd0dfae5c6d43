// Pipeline schedules: what each stage does in which order, made and checked before anything runs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace modular {

/// One thing that a stage does. A forward waits for the stage before, a backward for the stage after.
struct PipelineAction {
  enum class Kind { forward, backward };
  Kind kind;
  int64_t micro_batch;

  bool operator==(const PipelineAction&) const = default;
};

/// The actions of each stage, in order.
using PipelineSchedule = std::vector<std::vector<PipelineAction>>;

/// One forward, one backward (Narayanan et al., PipeDream-Flush): stage s runs stages - 1 - s forwards ahead, then
/// alternates, so that it never holds the activations of more than stages - s micro-batches.
PipelineSchedule schedule_1f1b(int64_t stages, int64_t micro_batches);

/// Forwards only, for evaluation.
PipelineSchedule schedule_forward(int64_t stages, int64_t micro_batches);

/// Why a schedule cannot run, in one sentence; empty where it can. A schedule can run when every stage handles every
/// micro-batch exactly once in each kind of action, neighbours send and receive in the same order, and playing the
/// actions, each as soon as what it waits for is done, comes to an end (sends never wait, as they are asynchronous).
std::string problem_of(const PipelineSchedule& schedule, int64_t micro_batches);

/// The largest number of micro-batches that `actions` holds between their forward and their backward.
int64_t most_in_flight(const std::vector<PipelineAction>& actions);

/// First and one past the last of `layers` that `stage` runs: as even as can be, the longer shares on earlier stages,
/// as the last one also computes the logits.
std::pair<int64_t, int64_t> stage_span(int64_t layers, int64_t stage, int64_t stages);

}  // namespace modular
