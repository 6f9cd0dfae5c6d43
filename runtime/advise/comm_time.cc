#include "runtime/advise/comm_time.h"

#include <algorithm>
#include <cmath>

namespace modular {
namespace {

/// Number of the group's ranks on one node.
int64_t ranks_on_node(const RankGroup& group, const Cluster& cluster) {
  return std::clamp<int64_t>(cluster.per_node / std::max<int64_t>(group.stride, 1), 1, group.size);
}

double compute_latency(const RankGroup& group, const Cluster& cluster) {
  return crosses_nodes(group, cluster) ? cluster.latency_between : cluster.latency;
}

/// Latency-bound steps of a collective: small messages use trees.
double rounds(int64_t ranks) { return std::ceil(std::log2(static_cast<double>(ranks))); }

}  // namespace

RankGroup tp_group(const Layout& layout) { return {layout.tp, 1}; }
RankGroup dp_shard_group(const Layout& layout) { return {layout.dp_shard, layout.tp}; }
RankGroup dp_replicate_group(const Layout& layout) { return {layout.dp_replicate, layout.tp * layout.dp_shard}; }
RankGroup pp_group(const Layout& layout) { return {layout.pp, layout.tp * layout.data_parallel()}; }

bool crosses_nodes(const RankGroup& group, const Cluster& cluster) {
  return group.size > 1 && (group.size - 1) * group.stride >= cluster.per_node;
}

double ring_speed(const RankGroup& group, const Cluster& cluster) {
  if (!crosses_nodes(group, cluster)) return cluster.link;
  return std::min(cluster.link, static_cast<double>(ranks_on_node(group, cluster)) * cluster.between);
}

double gather_bytes_per_rank(double bytes, int64_t ranks) {
  return bytes * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}

double all_reduce_bytes_per_rank(double bytes, int64_t ranks) { return 2.0 * gather_bytes_per_rank(bytes, ranks); }

double gather_seconds(double bytes, double count, const RankGroup& group, const Cluster& cluster) {
  if (group.size == 1) return 0.0;
  return count * rounds(group.size) * compute_latency(group, cluster) +
         gather_bytes_per_rank(bytes, group.size) / ring_speed(group, cluster);
}

double all_reduce_seconds(double bytes, double count, const RankGroup& group, const Cluster& cluster) {
  return 2.0 * gather_seconds(bytes, count, group, cluster);
}

double message_seconds(double bytes, const RankGroup& group, const Cluster& cluster) {
  if (group.size == 1) return 0.0;
  // The slowest hop of the group counts, because the pipeline waits for it.
  const bool leaves = crosses_nodes(group, cluster);
  return compute_latency(group, cluster) + bytes / (leaves ? cluster.between : cluster.link);
}

}  // namespace modular
