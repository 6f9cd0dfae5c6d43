// Step time of a layout, split into compute, communication and waiting.
#pragma once

#include "runtime/advise/cluster.h"
#include "runtime/advise/comm_bytes.h"
#include "runtime/advise/layout.h"
#include "runtime/advise/model_profile.h"
#include "runtime/advise/pipeline_clock.h"

namespace modular {

/// Communication seconds per step along one axis: total, and exposed (not overlapped with compute).
struct AxisTime {
  double all = 0.0, exposed = 0.0;
};

struct StepTime {
  double compute = 0.0;     // forwards and backwards of a rank
  double recomputed = 0.0;  // part of compute
  double update = 0.0;      // optimizer step
  double bubble = 0.0;      // pipeline bubble
  AxisTime tp, dp_shard, dp_replicate, pp, host;
  double total = 0.0;
  int64_t stored = 1;  // micro-batches per stage that await their backward
  Received bytes;

  double hidden() const;
  /// Fraction of the step in which a device is idle.
  double idle_fraction() const { return total > 0.0 ? 1.0 - (compute + update) / total : 0.0; }
};

/// Estimates a step with micro-batches of `rows` rows.
StepTime step_time(const ModelProfile& model, const Layout& layout, double rows, const Cluster& cluster,
                   PipelineClock& clock);

}  // namespace modular
