// How long a step of a layout takes, and what of it is computing, exchanging and waiting.
#pragma once

#include "runtime/advise/cluster.h"
#include "runtime/advise/comm_bytes.h"
#include "runtime/advise/layout.h"
#include "runtime/advise/model_profile.h"
#include "runtime/advise/pipeline_clock.h"

namespace modular {

/// Seconds of a step along one axis: all that it exchanges, and what of that no computing hides.
struct AxisTime {
  double all = 0.0, waited = 0.0;
};

struct StepTime {
  double compute = 0.0;  // forwards and backwards of a rank
  double again = 0.0;    // of it: computed twice
  double update = 0.0;   // the optimizer's
  double bubble = 0.0;   // in which a pipeline's rank waits for others
  AxisTime tp, dp_shard, dp_replicate, pp, host;
  double total = 0.0;
  int64_t stored = 1;  // micro-batches of a stage that wait for their backward
  Received bytes;

  double hidden() const;
  /// Share of the step in which a device computes nothing.
  double idle_fraction() const { return total > 0.0 ? 1.0 - (compute + update) / total : 0.0; }
};

/// Of micro-batches of `rows` rows.
StepTime step_time(const ModelProfile& model, const Layout& layout, double rows, const Cluster& cluster,
                   PipelineClock& clock);

}  // namespace modular
