// Bytes that a rank receives in a step over each axis: the closed forms of docs/guide/parallelism.md.
#pragma once

#include <cstdint>

#include "runtime/advise/layout.h"
#include "runtime/advise/model_profile.h"

namespace modular {

/// Bytes that the ranks of an axis have together when a collective is done, summed over a step, and the number of
/// collectives.
struct CommVolume {
  double bytes = 0.0;
  double count = 0.0;
};

struct StepTraffic {
  CommVolume gathers_forward, gathers_backward;  // over dp_shard: all-gathers of parameters
  CommVolume reductions;                         // over dp_shard: reduce-scatters of gradients
  CommVolume replicas;                           // over dp_replicate: all-reduces of gradients
  CommVolume tp;                                 // over tp: all-reduces of activations and their gradients
  CommVolume pp;                                 // over pp: messages, which a rank receives
};
StepTraffic count_step_traffic(const ModelProfile& model, const Layout& layout, double rows);

/// Bytes that a rank receives of them.
struct Received {
  double dp_shard = 0.0, dp_replicate = 0.0, tp = 0.0, pp = 0.0;
};
Received received(const StepTraffic& exchanges, const Layout& layout);

}  // namespace modular
