// Time of collectives: Hockney's model (latency and bandwidth) on rings that pass through each node once (Thakur,
// Rabenseifner & Gropp, Optimization of Collective Communication Operations in MPICH).
#pragma once

#include <cstdint>

#include "runtime/advise/cluster.h"
#include "runtime/advise/layout.h"

namespace modular {

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
