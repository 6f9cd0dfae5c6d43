// Communication volume of a step along each axis: the closed forms of docs/guide/parallelism.md.
#pragma once

#include <cstdint>

#include "runtime/advise/layout.h"
#include "runtime/advise/model_profile.h"

namespace modular {

/// Total size of the unsharded tensors of an axis's collectives in a step, and the number of collectives.
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

/// Bytes that a rank receives per step.
struct Received {
  double dp_shard = 0.0, dp_replicate = 0.0, tp = 0.0, pp = 0.0;
};
Received received(const StepTraffic& traffic, const Layout& layout);

}  // namespace modular
