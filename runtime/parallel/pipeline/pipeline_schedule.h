// Pipeline schedules: tables of the actions of each rank, in order, which are validated before anything runs. The
// format follows PyTorch's torch.distributed.pipelining and Qi et al., Zero Bubble Pipeline Parallelism, who split a
// backward in two.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace modular {

/// One schedule action: one computation of a rank for one of its stages and one micro-batch.
struct PipelineAction {
  enum class Kind {
    forward,          // F: waits for the F of the previous stage
    backward_input,   // I: gradient of the stage's input; waits for the I or B of the next stage
    backward_weight,  // W: gradients of the parameters; any time after its I
    backward,         // B: I and W together
  };
  Kind kind;
  int64_t stage;
  int64_t micro_batch;

  bool operator==(const PipelineAction&) const = default;
};

/// Whether the action produces the gradient that is sent to the previous stage.
constexpr bool passes_gradient(PipelineAction::Kind kind) {
  return kind == PipelineAction::Kind::backward_input || kind == PipelineAction::Kind::backward;
}

/// Formats an action as "2F0": stage, letter of the kind, micro-batch.
std::string format_cell(const PipelineAction& action);

/// Maximum number of stages of a pipeline: more than any machine has, so that a typo in a schedule file does not
/// allocate all memory.
inline constexpr int64_t kMaxStages = 1 << 16;

struct PipelineSchedule {
  std::vector<int64_t> stage_ranks;                // by stage
  std::vector<std::vector<PipelineAction>> ranks;  // by rank: actions in order

  int64_t stages() const { return static_cast<int64_t>(stage_ranks.size()); }
};

/// Returns the ranks of `stages_per_rank` * `ranks` looped stages: stage s is on rank s mod `ranks`.
std::vector<int64_t> looped_stages(int64_t ranks, int64_t stages_per_rank);

/// Returns the ranks of 2 * `ranks` stages in a V: one stage per rank in ascending order, then one per rank in
/// descending order, so that the first and the last stage share a rank (Qi et al., Pipeline Parallelism with
/// Controllable Memory).
std::vector<int64_t> v_shaped_stages(int64_t ranks);

/// Forwards only, for evaluation: groups of `ranks` micro-batches pass through all stages one after another.
PipelineSchedule schedule_forward(const std::vector<int64_t>& stage_ranks, int64_t ranks, int64_t micro_batches);

/// Returns why a schedule cannot run; empty if it can. A schedule is valid if each rank has a stage, each stage
/// processes every micro-batch once (with one B, or one I and then one W, if `trains`, else none), both ranks of a pair
/// send and receive in the same order, and a simulation, in which each action starts as soon as its dependencies are
/// done and sends do not wait for receives, completes.
std::string find_problem(const PipelineSchedule& schedule, int64_t micro_batches, bool trains = true);

/// Durations of the actions of a stage, in any unit. Messages take no time.
struct ActionTimes {
  double forward = 1.0, backward_input = 1.0, backward_weight = 1.0, backward = 2.0;

  double of(PipelineAction::Kind kind) const;
};

/// Result of running each rank's actions in order, each as soon as its dependencies are done.
struct Simulation {
  std::string stuck;                 // the action that waits forever; empty if the schedule completes
  double time = 0.0;                 // until the last rank is done
  double idle_fraction = 0.0;        // fraction of that time, over all ranks
  std::vector<int64_t> most_stored;  // by rank: maximum number of micro-batches of its stages between F and B or W
  std::vector<std::vector<double>> starts;  // by rank, parallel to its actions
  // By stage and micro-batch: end of the forward, and of the I or B.
  std::vector<std::vector<double>> forward_ends, backward_ends;
};

/// The stages and micro-batches of `schedule` must satisfy find_problem(); the order of the actions may be arbitrary.
Simulation simulate(const PipelineSchedule& schedule, const ActionTimes& times = {});

}  // namespace modular
