// Pipeline schedules: tables that say what each rank does for which of its stages in which order, checked before
// anything runs. The form is that of PyTorch's torch.distributed.pipelining, and of Qi et al., Zero Bubble Pipeline
// Parallelism, who cut a backward in two.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace modular {

/// One thing that a rank does for one of its stages and one micro-batch.
struct PipelineAction {
  enum class Kind {
    forward,          // F: waits for that of the stage before
    backward_input,   // I: the gradient of what the stage received; waits for the I or B of the stage after
    backward_weight,  // W: the gradients of the parameters; any time after its I
    backward,         // B: both in one
  };
  Kind kind;
  int64_t stage;
  int64_t micro_batch;

  bool operator==(const PipelineAction&) const = default;
};

/// Whether a stage's gradient passes to the stage before when the action ends.
constexpr bool passes_gradient(PipelineAction::Kind kind) {
  return kind == PipelineAction::Kind::backward_input || kind == PipelineAction::Kind::backward;
}

/// "2F0": stage, letter of the kind, micro-batch.
std::string format_cell(const PipelineAction& action);

/// Stages of a pipeline, over all ranks.
inline constexpr int64_t kMostStages = 1 << 16;

struct PipelineSchedule {
  std::vector<int64_t> stage_ranks;                // by stage
  std::vector<std::vector<PipelineAction>> ranks;  // by rank: its actions, in order

  int64_t stages() const { return static_cast<int64_t>(stage_ranks.size()); }
};

/// Where `stages_per_rank` * `ranks` stages lie: stage s on rank s mod `ranks`.
std::vector<int64_t> looped_stages(int64_t ranks, int64_t stages_per_rank);

/// Where 2 * `ranks` stages lie: one on each rank there, and one on each rank back, so that the first and the last
/// stage share a rank (Qi et al., Pipeline Parallelism with Controllable Memory).
std::vector<int64_t> v_shaped_stages(int64_t ranks);

/// Forwards only, for evaluation: as many micro-batches as there are ranks pass through all stages before the next.
PipelineSchedule schedule_forward(const std::vector<int64_t>& stage_ranks, int64_t ranks, int64_t micro_batches);

/// Why a schedule cannot run; empty where it can. A schedule can run when each rank has a stage, each
/// stage handles every micro-batch once (with one B, or one I and then one W, where it `trains`, else none), two ranks
/// handle what passes between them in the same order, and playing the actions, each as soon as what it waits for is
/// done, comes to an end (sends do not wait for their receipt).
std::string find_problem(const PipelineSchedule& schedule, int64_t micro_batches, bool trains = true);

}  // namespace modular
