#include "runtime/advise/step_time.h"

#include <algorithm>

#include "runtime/advise/comm_time.h"
#include "runtime/advise/compute_time.h"
#include "runtime/advise/stages_on_ranks.h"

namespace modular {
namespace {

/// Of the time that a device computes, the share in which exchanges go on beside it: they take some of its processors
/// and of its memory's speed.
constexpr double kHides = 0.8;

double not_hidden(double seconds, double beside) { return std::max(0.0, seconds - kHides * beside); }

/// What data-parallel exchanges leave to wait for. `forward` and `backward` are a rank's seconds of one micro-batch.
void add_data_parallel(StepTime& time, const StepTraffic& exchanges, const ModelProfile& model, const Layout& layout,
                       double forward, double backward, const Cluster& cluster) {
  const auto m = static_cast<double>(layout.micro_batches);
  const double units = std::max(1.0, static_cast<double>(model.unit_count) / static_cast<double>(layout.pp));
  const auto seconds = [&](const CommVolume& exchange) {
    return gather_seconds(exchange.bytes, exchange.count, dp_shard_group(layout), cluster);
  };
  const double there = seconds(exchanges.gathers_forward), back = seconds(exchanges.gathers_backward),
               sums = seconds(exchanges.reductions);
  const double forwards = layout.zero_stage == 3 ? m : 1.0, backwards = layout.zero_stage == 1 ? 1.0 : m;
  time.dp_shard.all = there + back + sums;
  // Nothing hides the first unit's gather and the last one's sum.
  const double ends = (there / forwards + sums / backwards) / units;
  time.dp_shard.waited = std::min(
      time.dp_shard.all, not_hidden(there, forwards * forward) + not_hidden(back + sums, backwards * backward) + ends);
  // Sums over replicas begin in the last backward, and go on beside the sums over shards.
  time.dp_replicate.all =
      all_reduce_seconds(exchanges.replicas.bytes, exchanges.replicas.count, dp_replicate_group(layout), cluster);
  const double room = std::max(0.0, backward - (back + sums) / backwards);
  time.dp_replicate.waited =
      std::min(time.dp_replicate.all, not_hidden(time.dp_replicate.all, room) + time.dp_replicate.all / units);
}

/// What moves between the device and its host, where the update is there.
void add_host(StepTime& time, const ModelProfile& model, const Layout& layout, double kept, const Cluster& cluster) {
  if (layout.offload == Offloaded::nothing) return;
  const double gathers =
      layout.offload == Offloaded::parameters ? 2.0 * static_cast<double>(layout.micro_batches) : 1.0;
  const double moved = kept * (4.0 + 4.0 * gathers);  // gradients out, parameters in
  const double updated = kept * (24.0 + 2.0 * model.optimizer_bytes);
  // The host's memory is taken to be as fast for each device as its line to the device.
  time.host.all = (moved + updated) / cluster.host;
  const double hidden = layout.offload == Offloaded::parameters ? kept * 4.0 * (gathers - 1.0) / cluster.host : 0.0;
  time.host.waited = time.host.all - std::min(hidden, kHides * time.compute);
  time.update = 0.0;
}

}  // namespace

double StepTime::hidden() const {
  double seconds = 0.0;
  for (const AxisTime& axis : {tp, dp_shard, dp_replicate, pp, host}) seconds += axis.all - axis.waited;
  return seconds;
}

StepTime step_time(const ModelProfile& model, const Layout& layout, double rows, const Cluster& cluster,
                   PipelineClock& clock) {
  const auto m = static_cast<double>(layout.micro_batches), pp = static_cast<double>(layout.pp);
  const auto stages = static_cast<double>(stages_per_rank(layout));
  const StepTraffic exchanges = count_step_traffic(model, layout, rows);
  const ComputeTime whole = compute_time(model, layout, rows, cluster);

  StepTime time;
  time.bytes = received(exchanges, layout);
  time.tp.all = time.tp.waited =  // a layer waits for its sums
      all_reduce_seconds(exchanges.tp.bytes, exchanges.tp.count, tp_group(layout), cluster);

  // One stage and micro-batch, of the costliest stage; of what tp sums a forward has half, or less if it runs twice.
  const bool is_v = layout.pp > 1 && find_schedule(layout).is_v;
  const double costliest = model.stage_shares(layout.pp, stages_per_rank(layout), is_v).costliest_stage;
  const double of_stage = costliest / (pp * stages);
  const double sums = time.tp.all / (m * stages);
  const double forward_sums = sums * (model.keepings[layout.keeping].again > 0.5 ? 1.0 / 3.0 : 0.5);
  const double forward = of_stage * whole.forward + forward_sums,
               backward = of_stage * whole.backward + sums - forward_sums;
  const double input = cuts_backwards(model, layout) ? 0.5 * backward : backward;
  const PipelineClock::Step step = clock.simulate_step(layout, backward / forward, input / forward);
  time.stored = step.most_stored;
  time.compute = m * whole.all() / pp;
  time.again = m * whole.again / pp;
  time.bubble = layout.pp == 1 ? 0.0 : std::max(0.0, step.length * forward - time.compute - time.tp.all);

  const double kept = elements_of_rank(model, layout) / static_cast<double>(layout.dp_shard);
  time.update = update_seconds(kept, model, cluster);
  add_data_parallel(time, exchanges, model, layout, stages * forward, stages * backward, cluster);
  if (layout.pp > 1) {
    const double message = message_seconds(rows * model.boundary, pp_group(layout), cluster);
    time.pp.all = message * exchanges.pp.count;
    // On the way that the first micro-batch takes to the end, and the last one's gradient back.
    time.pp.waited = std::min(time.pp.all, 2.0 * message * (pp * stages - 1.0));
  }
  add_host(time, model, layout, kept, cluster);
  time.total = time.compute + time.update + time.bubble;
  for (const AxisTime& axis : {time.tp, time.dp_shard, time.dp_replicate, time.pp, time.host})
    time.total += axis.waited;
  return time;
}

}  // namespace modular
