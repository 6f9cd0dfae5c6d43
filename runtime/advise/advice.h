// Which layout to train a run on: all are estimated, and the fastest that fit are planned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/advise/cluster.h"
#include "runtime/advise/guide_case.h"
#include "runtime/advise/model_profile.h"
#include "runtime/advise/ranking.h"
#include "runtime/train/config.h"

namespace modular {

struct Advice {
  ModelProfile model;
  GuideCase guide;
  int64_t tried = 0, fitting = 0, planned = 0;  // layouts that were estimated, that fit by estimate, that were planned
  std::vector<Choice> choices;                  // the fastest first; of each mesh the best
  std::vector<RunConfig> configs;               // beside them, with which training starts
};

/// The best `top` meshes of the cluster for the run. Throws ConfigError where the config or the cluster
/// cannot be, and where nothing fits, with what would.
Advice advise(const RunConfig& config, const Cluster& cluster, int64_t top);

/// What the config's own mesh, micro-batches, schedule and recomputation would take there, fitting or not.
Advice assess(const RunConfig& config, const Cluster& cluster);

/// Hours of train.steps of them, and what these cost on all devices.
double hours_of_run(const RunConfig& config, const StepTime& time);
double cost_of_run(const RunConfig& config, const StepTime& time, const Cluster& cluster);

}  // namespace modular
