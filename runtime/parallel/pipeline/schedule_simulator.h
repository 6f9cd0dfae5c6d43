// Simulates a pipeline schedule: whether it completes, how long its ranks are idle (the bubble), and what they store.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/parallel/pipeline/pipeline_schedule.h"

namespace modular {

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
