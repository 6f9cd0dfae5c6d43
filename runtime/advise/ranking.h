// Ranks all layouts of a cluster by estimated step time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/advise/cluster.h"
#include "runtime/advise/layouts.h"
#include "runtime/advise/memory_estimate.h"
#include "runtime/advise/model_profile.h"
#include "runtime/advise/step_time.h"

namespace modular {

/// A layout with its estimated memory and step time.
struct Choice {
  Layout layout;
  double rows = 1.0;  // per micro-batch
  MemoryEstimate estimated;
  std::optional<int64_t> planned;  // peak bytes of the fullest rank, as in `modrun plan`
  StepTime time;

  double memory() const { return planned ? static_cast<double>(*planned) : estimated.peak; }
};

/// Estimates a step with a global batch of `batch` rows.
Choice estimate(const ModelProfile& model, const Layout& layout, int64_t batch, const Cluster& cluster,
                PipelineClock& clock);

/// Estimates all layouts of `search`, fitting or not. Sorted by step time; within half a percent, simpler layouts come
/// first.
std::vector<Choice> estimate_all(const ModelProfile& model, const Cluster& cluster, const LayoutSearch& search);

}  // namespace modular
