#include "runtime/advise/step_time.h"

#include <algorithm>

#include "runtime/advise/comm_time.h"
#include "runtime/advise/compute_time.h"
#include "runtime/advise/stages_on_ranks.h"

namespace modular {
namespace {

/// Fraction of compute time that can overlap with communication, which takes some of the device's SMs and memory
/// bandwidth.
constexpr double kOverlap = 0.8;

double exposed(double seconds, double compute) { return std::max(0.0, seconds - kOverlap * compute); }

/// Adds data-parallel communication. `forward` and `backward` are a rank's seconds per micro-batch.
void add_data_parallel(StepTime& time, const StepTraffic& traffic, const ModelProfile& model, const Layout& layout,
                       double forward, double backward, const Cluster& cluster) {
  const auto m = static_cast<double>(layout.micro_batches);
  const double units = std::max(1.0, static_cast<double>(model.unit_count) / static_cast<double>(layout.pp));
  const auto seconds = [&](const CommVolume& volume) {
    return gather_seconds(volume.bytes, volume.count, dp_shard_group(layout), cluster);
  };
  const double forward_gathers = seconds(traffic.gathers_forward), backward_gathers = seconds(traffic.gathers_backward),
               sums = seconds(traffic.reductions);
  const double forwards = layout.zero_stage == 3 ? m : 1.0, backwards = layout.zero_stage == 1 ? 1.0 : m;
  time.dp_shard.all = forward_gathers + backward_gathers + sums;
  // The first unit's gather and the last unit's reduction are always exposed.
  const double ends = (forward_gathers / forwards + sums / backwards) / units;
  time.dp_shard.exposed =
      std::min(time.dp_shard.all, exposed(forward_gathers, forwards * forward) +
                                      exposed(backward_gathers + sums, backwards * backward) + ends);
  // All-reduces over replicas start in the last backward and share it with the reductions over shards.
  time.dp_replicate.all =
      all_reduce_seconds(traffic.replicas.bytes, traffic.replicas.count, dp_replicate_group(layout), cluster);
  const double room = std::max(0.0, backward - (backward_gathers + sums) / backwards);
  time.dp_replicate.exposed =
      std::min(time.dp_replicate.all, exposed(time.dp_replicate.all, room) + time.dp_replicate.all / units);
}

/// Adds transfers between device and host, and the update on the host, if the optimizer is offloaded.
void add_host(StepTime& time, const ModelProfile& model, const Layout& layout, double kept, const Cluster& cluster) {
  if (layout.offload == Offloaded::nothing) return;
  const double gathers =
      layout.offload == Offloaded::parameters ? 2.0 * static_cast<double>(layout.micro_batches) : 1.0;
  const double moved = kept * (4.0 + 4.0 * gathers);  // gradients out, parameters in
  const double updated = kept * (24.0 + 2.0 * model.optimizer_bytes);
  // Host memory bandwidth per device is assumed equal to that of the host link.
  time.host.all = (moved + updated) / cluster.host;
  const double hidden = layout.offload == Offloaded::parameters ? kept * 4.0 * (gathers - 1.0) / cluster.host : 0.0;
  time.host.exposed = time.host.all - std::min(hidden, kOverlap * time.compute);
  time.update = 0.0;
}

}  // namespace

double StepTime::hidden() const {
  double seconds = 0.0;
  for (const AxisTime& axis : {tp, dp_shard, dp_replicate, pp, host}) seconds += axis.all - axis.exposed;
  return seconds;
}

StepTime step_time(const ModelProfile& model, const Layout& layout, double rows, const Cluster& cluster,
                   PipelineClock& clock) {
  const auto m = static_cast<double>(layout.micro_batches), pp = static_cast<double>(layout.pp);
  const auto stages = static_cast<double>(stages_per_rank(layout));
  const StepTraffic traffic = count_step_traffic(model, layout, rows);
  const ComputeTime model_time = compute_time(model, layout, rows, cluster);

  StepTime time;
  time.bytes = received(traffic, layout);
  time.tp.all = time.tp.exposed =  // layers wait for their all-reduces
      all_reduce_seconds(traffic.tp.bytes, traffic.tp.count, tp_group(layout), cluster);

  // Times of the costliest stage for one micro-batch. A forward has half of the tp all-reduces, or a third if it is
  // recomputed.
  const bool is_v = layout.pp > 1 && find_schedule(layout).is_v;
  const double costliest = model.stage_shares(layout.pp, stages_per_rank(layout), is_v).costliest_stage;
  const double stage_fraction = costliest / (pp * stages);
  const double sums = time.tp.all / (m * stages);
  const double forward_sums = sums * (model.keepings[layout.keeping].recomputed > 0.5 ? 1.0 / 3.0 : 0.5);
  const double forward = stage_fraction * model_time.forward + forward_sums,
               backward = stage_fraction * model_time.backward + sums - forward_sums;
  const double input = splits_backwards(model, layout) ? 0.5 * backward : backward;
  const PipelineClock::Step step = clock.simulate_step(layout, backward / forward, input / forward);
  time.stored = step.most_stored;
  time.compute = m * model_time.all() / pp;
  time.recomputed = m * model_time.recomputed / pp;
  time.bubble = layout.pp == 1 ? 0.0 : std::max(0.0, step.length * forward - time.compute - time.tp.all);

  const double kept = rank_elements(model, layout) / static_cast<double>(layout.dp_shard);
  time.update = update_seconds(kept, model, cluster);
  add_data_parallel(time, traffic, model, layout, stages * forward, stages * backward, cluster);
  if (layout.pp > 1) {
    const double message = message_seconds(rows * model.boundary, pp_group(layout), cluster);
    time.pp.all = message * traffic.pp.count;
    // Exposed on the path of the first micro-batch to the last stage, and of the last gradient back.
    time.pp.exposed = std::min(time.pp.all, 2.0 * message * (pp * stages - 1.0));
  }
  add_host(time, model, layout, kept, cluster);
  time.total = time.compute + time.update + time.bubble;
  for (const AxisTime& axis : {time.tp, time.dp_shard, time.dp_replicate, time.pp, time.host})
    time.total += axis.exposed;
  return time;
}

}  // namespace modular
