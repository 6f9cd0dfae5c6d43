#include "runtime/advise/communication.h"

#include <algorithm>
#include <cmath>

#include "runtime/advise/layout.h"

namespace modular {
namespace {

constexpr double kGradientBytes = 4.0;  // gradients are reduced in float32

void add_sharded(StepTraffic& traffic, const ModelProfile& model, const Layout& layout) {
  const auto m = static_cast<double>(layout.micro_batches);
  const RankElements elements = split_rank_elements(model, layout);
  const double units = elements.units, root = elements.root;
  const double count =
      std::max(1.0, static_cast<double>(model.unit_count) / static_cast<double>(std::max<int64_t>(layout.pp, 1)));
  const double gathered = model.gathered_bytes;
  if (layout.zero_stage < 3) {
    traffic.gathers_forward = {gathered * (units + root), count + 1};
  } else {
    // The root stays unsharded for the whole step, and the last unit from its forward to its backward.
    traffic.gathers_forward = {gathered * (m * units + root), m * count + 1};
    traffic.gathers_backward = {gathered * m * std::max(0.0, units - model.last_unit.on(layout.tp)),
                                m * std::max(0.0, count - 1)};
  }
  const double sums = layout.zero_stage == 1 ? 1.0 : m;
  traffic.reductions = {kGradientBytes * sums * (units + root), sums * (count + 1)};
}

}  // namespace

StepTraffic count_step_traffic(const ModelProfile& model, const Layout& layout, double rows) {
  StepTraffic traffic;
  const auto m = static_cast<double>(layout.micro_batches);
  const Keeping& keeping = model.keepings[layout.keeping];
  const auto pp = static_cast<double>(layout.pp);
  if (layout.shards() > 1) add_sharded(traffic, model, layout);
  if (layout.dp_replicate > 1)
    traffic.replicas = {kGradientBytes * rank_elements(model, layout) / static_cast<double>(layout.shards()),
                        std::max(1.0, static_cast<double>(model.unit_count) / pp) + 1};
  if (layout.tp > 1) {
    const bool sequence = divides_positions(model, layout);
    const double bytes = sequence ? keeping.gathered_over_tp : 2.0 * keeping.summed_over_tp;
    const int64_t count = sequence ? keeping.gathers_over_tp : 2 * keeping.sums_over_tp;
    traffic.tp = {m * rows * bytes / static_cast<double>(layout.cp) / pp, m * static_cast<double>(count) / pp};
  }
  if (layout.cp > 1) {
    const ContextCost cost = context_cost(model, layout);
    const double repeats = m * keeping.context_traffic / pp;
    traffic.cp = {repeats * rows * cost.received, repeats * static_cast<double>(cost.collectives)};
    traffic.exchanged_cp = repeats * rows * cost.exchanged;
  }
  if (layout.pp > 1) {
    const bool is_v = find_schedule(layout).is_v;
    const auto stages = static_cast<double>(stages_per_rank(layout));
    // Number of messages that a middle rank receives per micro-batch: one per stage boundary and direction. The turn of
    // a V is within one rank. With two ranks, each receives at every boundary between them.
    const double boundaries = is_v ? 2.0 * pp - 2.0 : stages * pp - 1.0;
    const double messages = layout.pp == 2 ? boundaries : 2.0 * stages;
    traffic.pp = {m * rows * boundary_on_rank(model, layout) * messages, m * messages};
  }
  return traffic;
}

Received received(const StepTraffic& traffic, const Layout& layout) {
  const double gathered = traffic.gathers_forward.bytes + traffic.gathers_backward.bytes + traffic.reductions.bytes;
  return {.dp_shard = gather_bytes_per_rank(gathered, layout.shards()),
          .dp_replicate = all_reduce_bytes_per_rank(traffic.replicas.bytes, layout.dp_replicate),
          .cp = traffic.cp.bytes,
          .tp = gather_bytes_per_rank(traffic.tp.bytes, layout.tp),
          .pp = traffic.pp.bytes};
}

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
RankGroup cp_group(const Layout& layout) { return {layout.cp, layout.tp}; }
RankGroup dp_shard_group(const Layout& layout) { return {layout.shards(), layout.tp}; }
RankGroup dp_replicate_group(const Layout& layout) { return {layout.dp_replicate, layout.tp * layout.shards()}; }
RankGroup pp_group(const Layout& layout) { return {layout.pp, layout.tp * layout.cp * layout.data_parallel()}; }

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

double exchange_seconds(double received, double count, const RankGroup& group, const Cluster& cluster) {
  if (group.size == 1) return 0.0;
  const auto others = static_cast<double>(group.size - 1);
  const auto neighbors = static_cast<double>(ranks_on_node(group, cluster) - 1);
  const double within = received * neighbors / others / cluster.link;
  const double across =
      crosses_nodes(group, cluster) ? received * (others - neighbors) / others / cluster.between : 0.0;
  return count * rounds(group.size) * compute_latency(group, cluster) + std::max(within, across);
}

double context_seconds(const StepTraffic& traffic, const RankGroup& group, const Cluster& cluster) {
  if (group.size == 1) return 0.0;
  const double gathered = traffic.cp.bytes - traffic.exchanged_cp;
  return exchange_seconds(traffic.exchanged_cp, traffic.cp.count, group, cluster) +
         gathered / ring_speed(group, cluster);
}

double message_seconds(double bytes, const RankGroup& group, const Cluster& cluster) {
  if (group.size == 1) return 0.0;
  // The slowest hop of the group counts, because the pipeline waits for it.
  const bool leaves = crosses_nodes(group, cluster);
  return compute_latency(group, cluster) + bytes / (leaves ? cluster.between : cluster.link);
}

}  // namespace modular
