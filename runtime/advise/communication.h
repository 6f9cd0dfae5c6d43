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
  CommVolume gathers_forward, gathers_backward;  // over dp_shard and cp: all-gathers of parameters
  CommVolume reductions;                         // over dp_shard and cp: reduce-scatters of gradients
  CommVolume replicas;                           // over dp_replicate: all-reduces of gradients
  /// Over tp: all-gathers and reduce-scatters of activations and their gradients. An all-reduce counts as one of each.
  CommVolume tp;
  CommVolume pp;              // over pp: messages, which a rank receives
  CommVolume cp;              // over cp: collectives of attention, of which a rank receives these bytes
  double exchanged_cp = 0.0;  // part of cp.bytes: by all-to-alls
};
StepTraffic count_step_traffic(const ModelProfile& model, const Layout& layout, double rows);

/// Bytes that a rank receives per step. `dp_shard`: parameters and gradients, over dp_shard and cp together.
struct Received {
  double dp_shard = 0.0, dp_replicate = 0.0, cp = 0.0, tp = 0.0, pp = 0.0;
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
RankGroup cp_group(const Layout& layout);
RankGroup dp_shard_group(const Layout& layout);  // the ranks along dp_shard and cp, which shard parameters
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

/// Seconds of `count` sequential all-to-alls through which a rank receives `received` bytes in total, as many from each
/// rank. Unlike a ring's, its bytes from other nodes all arrive over the link of one device.
double exchange_seconds(double received, double count, const RankGroup& group, const Cluster& cluster);

/// Seconds of a step's collectives over cp.
double context_seconds(const StepTraffic& traffic, const RankGroup& group, const Cluster& cluster);

/// Seconds until a message to the next rank of the group has arrived, over the slowest hop.
double message_seconds(double bytes, const RankGroup& group, const Cluster& cluster);

}  // namespace modular
