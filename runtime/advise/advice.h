// Recommends parallel layouts for a run: estimates all layouts and plans the fastest that fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/advise/cluster.h"
#include "runtime/advise/guide_case.h"
#include "runtime/advise/model_profile.h"
#include "runtime/advise/ranking.h"
#include "runtime/config/config.h"

namespace modular {

struct Advice {
  ModelProfile model;
  GuideCase guide;
  int64_t tried = 0, fitting = 0, planned = 0;  // numbers of layouts estimated, fitting by estimate, and planned
  std::vector<Choice> choices;                  // best layout of each mesh, fastest first
  std::vector<RunConfig> configs;               // training config of each choice
};

/// Returns the best `top` meshes of the cluster for the run. Throws ConfigError if the config or the cluster is
/// invalid, or if nothing fits, with a suggestion.
Advice advise(const RunConfig& config, const Cluster& cluster, int64_t top);

/// Estimates the config's own mesh, micro-batches, schedule and recomputation on the cluster, whether it fits or not.
Advice assess(const RunConfig& config, const Cluster& cluster);

/// Hours of train.steps steps, and their cost on all devices.
double run_hours(const RunConfig& config, const StepTime& time);
double run_cost(const RunConfig& config, const StepTime& time, const Cluster& cluster);

}  // namespace modular
