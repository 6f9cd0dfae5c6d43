// Communication of a step: its volume along each axis, and the time that collectives take.
#pragma once

#include <cstdint>

#include "runtime/advise/cluster.h"
#include "runtime/advise/layout.h"

namespace modular {

// Communication volume of a step along each axis: the closed forms of docs/guide/parallelism.md.

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

// Time of collectives: Hockney's model (latency and bandwidth) on rings that pass through each node once (Thakur,
// Rabenseifner & Gropp, Optimization of Collective Communication Operations in MPICH).

/// A communication group: `size` ranks with stride `stride`. Ranks are numbered node by node.
struct RankGroup {
  int64_t size = 1, stride = 1;
};

/// Groups of a layout along each mesh axis: tp is innermost, pp outermost.
RankGroup tp_group(const Layout& layout);
RankGroup dp_shard_group(const Layout& layout);
RankGroup dp_replicate_group(const Layout& layout);
RankGroup pp_group(const Layout& layout);

/// Whether a group spans several nodes.
bool crosses_nodes(const RankGroup& group, const Cluster& cluster);

/// Bytes/s per rank in a ring of the group. A ring that crosses nodes uses the links of all its ranks on a node.
double ring_speed(const RankGroup& group, const Cluster& cluster);

/// Bytes that a rank receives in an all-gather or reduce-scatter of a tensor of `bytes`, and in an all-reduce.
double gather_bytes_per_rank(double bytes, int64_t ranks);
double all_reduce_bytes_per_rank(double bytes, int64_t ranks);

/// Seconds of `count` sequential collectives with `bytes` in total.
double gather_seconds(double bytes, double count, const RankGroup& group, const Cluster& cluster);
double all_reduce_seconds(double bytes, double count, const RankGroup& group, const Cluster& cluster);

/// Seconds until a message to the next rank of the group has arrived, over the slowest hop.
double message_seconds(double bytes, const RankGroup& group, const Cluster& cluster);

}  // namespace modular
