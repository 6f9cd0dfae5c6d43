// All layouts of a cluster in the order of their steps' estimated times.
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

/// A layout and what a step of it takes.
struct Choice {
  Layout layout;
  double rows = 1.0;  // of a micro-batch
  MemoryEstimate estimated;
  std::optional<int64_t> planned;  // bytes of the fullest rank, as `modrun plan` has its peak
  StepTime time;

  double memory() const { return planned ? static_cast<double>(*planned) : estimated.peak; }
};

/// A step of `batch` rows over all ranks.
Choice estimate(const ModelProfile& model, const Layout& layout, int64_t batch, const Cluster& cluster,
                PipelineClock& clock);

/// All that `search` asks for, fitting or not: the fastest first, and of those within half a percent of one another the
/// plainest.
std::vector<Choice> estimate_all(const ModelProfile& model, const Cluster& cluster, const LayoutSearch& search);

}  // namespace modular
