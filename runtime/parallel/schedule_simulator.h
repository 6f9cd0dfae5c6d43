// A pipeline schedule simulated on a virtual clock: whether it comes to an end, how long its ranks wait, and what they
// store.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/parallel/pipeline_schedule.h"

namespace modular {

/// How long the actions of one stage take, in any unit. Messages take no time.
struct ActionTimes {
  double forward = 1.0, backward_input = 1.0, backward_weight = 1.0, backward = 2.0;

  double of(PipelineAction::Kind kind) const;
};

/// What happens when each rank runs its actions in order, each as soon as what it waits for is done.
struct Simulation {
  std::string stuck;                        // the action that waits forever; empty at an end
  double time = 0.0;                        // until the last rank is done
  double idle_fraction = 0.0;               // of that time, over all ranks
  std::vector<int64_t> most_stored;         // by rank: the most micro-batches of its stages between F and B or W
  std::vector<std::vector<double>> starts;  // by rank, beside its actions
  // By stage and micro-batch: when the forward, and the backward's I or B, ended.
  std::vector<std::vector<double>> forward_ends, backward_ends;
};

/// `schedule` has stages and micro-batches as find_problem() asks; its order may be any.
Simulation simulate(const PipelineSchedule& schedule, const ActionTimes& times = {});

}  // namespace modular
