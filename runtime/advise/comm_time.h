// How long collectives take: Hockney's model, a time until the first byte and a speed, on rings that pass through each
// node once (Thakur, Rabenseifner & Gropp, Optimization of Collective Communication Operations in MPICH).
#pragma once

#include <cstdint>

#include "runtime/advise/cluster.h"
#include "runtime/advise/layout.h"

namespace modular {

/// Ranks of a mesh that exchange with one another: `size` of them, whose numbers differ by `stride`. Ranks are numbered
/// node by node.
struct RankGroup {
  int64_t size = 1, stride = 1;
};

/// The groups of a layout, in the order of the mesh's axes: tp is innermost, pp outermost.
RankGroup tp_group(const Layout& layout);
RankGroup dp_shard_group(const Layout& layout);
RankGroup dp_replicate_group(const Layout& layout);
RankGroup pp_group(const Layout& layout);

/// Whether a group has ranks of several nodes.
bool crosses_nodes(const RankGroup& group, const Cluster& cluster);

/// Bytes/s of each rank in a ring of the group. One that leaves its nodes has the lines of all its ranks there.
double ring_speed(const RankGroup& group, const Cluster& cluster);

/// Bytes that a rank receives: of an all-gather to `bytes` in all, or a reduce-scatter of as many, and of an
/// all-reduce.
double gathered_by_rank(double bytes, int64_t ranks);
double all_reduced_by_rank(double bytes, int64_t ranks);

/// Seconds of `count` collectives that together have so many bytes, one after another.
double gather_seconds(double bytes, double count, const RankGroup& group, const Cluster& cluster);
double all_reduce_seconds(double bytes, double count, const RankGroup& group, const Cluster& cluster);

/// Seconds until a message to the next rank of the group has arrived, where that takes longest.
double message_seconds(double bytes, const RankGroup& group, const Cluster& cluster);

}  // namespace modular
