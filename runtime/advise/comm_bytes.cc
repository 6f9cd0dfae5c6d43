#include "runtime/advise/comm_bytes.h"

#include <algorithm>

#include "runtime/advise/comm_time.h"
#include "runtime/advise/stages_on_ranks.h"

namespace modular {
namespace {

constexpr double kGradientBytes = 4.0;  // sums over data-parallel ranks are in float32

void add_sharded(StepTraffic& exchanges, const ModelProfile& model, const Layout& layout) {
  const auto m = static_cast<double>(layout.micro_batches);
  const RankElements of_rank = split_elements_of_rank(model, layout);
  const double units = of_rank.units, root = of_rank.root;
  const double count =
      std::max(1.0, static_cast<double>(model.unit_count) / static_cast<double>(std::max<int64_t>(layout.pp, 1)));
  const double gathered = model.gathered_bytes;
  if (layout.zero_stage < 3) {
    exchanges.gathers_forward = {gathered * (units + root), count + 1};
  } else {
    // The root stays gathered for the step, and the last unit from its forward to its backward.
    exchanges.gathers_forward = {gathered * (m * units + root), m * count + 1};
    exchanges.gathers_backward = {gathered * m * std::max(0.0, units - model.last_unit.on(layout.tp)),
                                  m * std::max(0.0, count - 1)};
  }
  const double sums = layout.zero_stage == 1 ? 1.0 : m;
  exchanges.reductions = {kGradientBytes * sums * (units + root), sums * (count + 1)};
}

}  // namespace

StepTraffic count_step_traffic(const ModelProfile& model, const Layout& layout, double rows) {
  StepTraffic exchanges;
  const auto m = static_cast<double>(layout.micro_batches);
  const Keeping& keeping = model.keepings[layout.keeping];
  const auto pp = static_cast<double>(layout.pp);
  if (layout.dp_shard > 1) add_sharded(exchanges, model, layout);
  if (layout.dp_replicate > 1)
    exchanges.replicas = {kGradientBytes * elements_of_rank(model, layout) / static_cast<double>(layout.dp_shard),
                          std::max(1.0, static_cast<double>(model.unit_count) / pp) + 1};
  if (layout.tp > 1)
    exchanges.tp = {m * rows * keeping.summed_over_tp / pp, m * static_cast<double>(keeping.sums_over_tp) / pp};
  if (layout.pp > 1) {
    const bool is_v = find_schedule(layout).is_v;
    const auto stages = static_cast<double>(stages_per_rank(layout));
    // Cuts at which the rank in the middle receives: forwards, and as many backwards. A V's turn lies on one rank, and
    // of two ranks in a ring either receives at all cuts that come to it.
    const double all_cuts = is_v ? 2.0 * pp - 2.0 : stages * pp - 1.0;
    const double of_rank = layout.pp == 2 ? all_cuts : 2.0 * stages;
    exchanges.pp = {m * rows * model.boundary * of_rank, m * of_rank};
  }
  return exchanges;
}

Received received(const StepTraffic& exchanges, const Layout& layout) {
  const double gathered =
      exchanges.gathers_forward.bytes + exchanges.gathers_backward.bytes + exchanges.reductions.bytes;
  return {.dp_shard = gathered_by_rank(gathered, layout.dp_shard),
          .dp_replicate = all_reduced_by_rank(exchanges.replicas.bytes, layout.dp_replicate),
          .tp = all_reduced_by_rank(exchanges.tp.bytes, layout.tp),
          .pp = exchanges.pp.bytes};
}

}  // namespace modular
