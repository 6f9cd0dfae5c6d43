#include "runtime/advise/step_time.h"

#include <algorithm>
#include <cmath>

#include "runtime/advise/communication.h"
#include "runtime/advise/layout.h"

namespace modular {

double attained_flops(double tokens, double width, const Cluster& cluster) {
  return cluster.flops * cluster.attained * tokens / (tokens + kHalfTokens) * width / (width + kHalfWidth);
}

ComputeTime compute_time(const ModelProfile& model, const Layout& layout, double rows, const Cluster& cluster) {
  const auto tp = static_cast<double>(layout.tp), cp = static_cast<double>(layout.cp);
  const double tokens = rows * static_cast<double>(model.tokens_of_row) / cp;
  // Of contiguous positions, the last rank's see the most keys: 2 - 1/cp times the mean. All-to-all balances them.
  const ContextCost cost = context_cost(model, layout);
  const double skewed = 2.0 * cost.exchanged < cost.received ? model.skewed_flops * (cp - 1.0) / cp : 0.0;
  const double flops = (model.flops_of_row + skewed) / cp;
  const double matmuls = rows * flops / tp / attained_flops(tokens, model.width / tp, cluster);
  const double pass = rows * on_rank(model.values, model, layout) / cluster.speed_of_memory();
  ComputeTime time;
  // The backward has two GEMMs for each GEMM of the forward.
  time.forward = matmuls / 3.0 + kForwardPasses * pass;
  time.recomputed = model.keepings[layout.keeping].recomputed * time.forward;
  time.backward = 2.0 * matmuls / 3.0 + kBackwardPasses * pass + time.recomputed;
  return time;
}

double update_seconds(double elements, const ModelProfile& model, const Cluster& cluster) {
  constexpr double kGradient = 3.0 * 4.0;    // read for the norm, then read and written for clipping
  constexpr double kParameters = 2.0 * 4.0;  // read and written
  const double bytes = kGradient + kParameters + 2.0 * model.optimizer_bytes + model.gathered_bytes;
  return elements * bytes / cluster.speed_of_memory();
}

PipelineClock::Step PipelineClock::simulate_step(const Layout& layout, double backward, double input) {
  const int64_t stages = stages_per_rank(layout);
  if (layout.pp == 1)
    return {.length = static_cast<double>(layout.micro_batches) * (1.0 + backward),
            .busy = static_cast<double>(layout.micro_batches) * (1.0 + backward)};
  // Round times to a hundredth of a forward, so that nearly equal layouts share a simulation.
  const auto hundredths = [](double time) { return std::llround(time * 100.0); };
  auto& step =
      simulated_[{layout.schedule, layout.pp, stages, layout.micro_batches, hundredths(backward), hundredths(input)}];
  if (step.length > 0.0) return step;
  const auto rounded = [&](double time) { return static_cast<double>(hundredths(time)) / 100.0; };
  const ActionTimes times = {.forward = 1.0,
                             .backward_input = rounded(input),
                             .backward_weight = rounded(backward) - rounded(input),
                             .backward = rounded(backward)};
  const Simulation simulated = simulate(find_schedule(layout).make(layout.pp, stages, layout.micro_batches), times);
  step.length = simulated.time;
  step.busy = simulated.time * (1.0 - simulated.idle_fraction);
  step.most_stored = std::ranges::max(simulated.most_stored);
  return step;
}

MemoryEstimate estimate_memory(const ModelProfile& model, const Layout& layout, double rows, int64_t stored) {
  constexpr double kFloat = 4.0;
  const RankElements elements = split_rank_elements(model, layout);
  const double all = elements.units + elements.root, kept = all / static_cast<double>(layout.shards());
  const bool sharded = layout.shards() > 1, on_device = layout.offload != Offloaded::parameters;
  const Keeping& keeping = model.keepings[layout.keeping];
  const double unit = model.largest_unit.on(layout.tp);
  const bool repeats = layout.micro_batches > 1;

  MemoryEstimate memory;
  memory.parameters = on_device ? kFloat * kept : 0.0;
  memory.optimizer = layout.offload == Offloaded::nothing ? model.optimizer_bytes * kept : 0.0;
  memory.gradients = kFloat * kept;
  if ((sharded && layout.zero_stage == 3) || !on_device)
    memory.gathered =
        model.gathered_bytes * std::min(all, elements.root + static_cast<double>(1 + model.prefetch) * unit);
  else if (sharded || model.gathered_bytes < kFloat)
    memory.gathered = model.gathered_bytes * all;
  // ZeRO 1 keeps unsharded gradients across micro-batches; otherwise at most two units are being reduced.
  const bool keeps_full = sharded && layout.zero_stage == 1 && repeats;
  if (sharded) memory.unreduced = kFloat * (keeps_full ? all : std::min(all, 2.0 * std::max(unit, elements.root)));

  const auto stages = static_cast<double>(stages_per_rank(layout));
  const bool is_v = layout.pp > 1 && find_schedule(layout).is_v;
  const double stage_fraction = model.stage_shares(layout.pp, stages_per_rank(layout), is_v).fullest_rank / stages;
  const double keys = context_cost(model, layout).kept;  // of other cp ranks
  const double row = stage_fraction * (on_rank(keeping.activations, model, layout) + keeping.context_kept * keys);
  const double head = on_rank(keeping.head, model, layout);
  // In a V, rank 0 has the first stage's stored activations and the head. Otherwise the last rank has the head and one
  // micro-batch.
  memory.activations =
      rows * (layout.pp == 1 || is_v ? static_cast<double>(stored) * row + head
                                     : std::max(static_cast<double>(stored) * row, stages * row + head));
  memory.working = rows * on_rank(keeping.working, model, layout);
  if (keeping.recomputed == 1.0)
    memory.working += rows * keys / static_cast<double>(std::max<int64_t>(model.layers, 1));

  const double always = memory.parameters + memory.optimizer;
  // At the start of a backward, all activations and the gradients of earlier micro-batches are alive.
  double begin = always + memory.gathered + memory.activations + memory.working;
  if (repeats) begin += keeps_full ? memory.unreduced : memory.gradients;
  if (repeats && sharded && !keeps_full && layout.pp > 1) begin += kFloat * 2.0 * unit;
  // At its end, all gradients are alive; the root's are reduced last.
  const bool stays_full = layout.zero_stage < 3 || !sharded;
  const double end =
      always + memory.gradients + memory.unreduced + memory.working + (stays_full ? memory.gathered : 0.0);
  memory.peak = std::max(begin, end);
  return memory;
}

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
  for (const AxisTime& axis : {tp, cp, dp_shard, dp_replicate, pp, host}) seconds += axis.all - axis.exposed;
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
  // Layers wait for their collectives over tp and cp.
  time.tp.all = time.tp.exposed = gather_seconds(traffic.tp.bytes, traffic.tp.count, tp_group(layout), cluster);
  time.cp.all = time.cp.exposed = context_seconds(traffic, cp_group(layout), cluster);

  // Times of the costliest stage for one micro-batch. A forward has half of these collectives, or a third if it is
  // recomputed.
  const bool is_v = layout.pp > 1 && find_schedule(layout).is_v;
  const double costliest = model.stage_shares(layout.pp, stages_per_rank(layout), is_v).costliest_stage;
  const double stage_fraction = costliest / (pp * stages);
  const double sums = (time.tp.all + time.cp.all) / (m * stages);
  const double forward_sums = sums * (model.keepings[layout.keeping].recomputed > 0.5 ? 1.0 / 3.0 : 0.5);
  const double forward = stage_fraction * model_time.forward + forward_sums,
               backward = stage_fraction * model_time.backward + sums - forward_sums;
  const double input = splits_backwards(model, layout) ? 0.5 * backward : backward;
  const PipelineClock::Step step = clock.simulate_step(layout, backward / forward, input / forward);
  time.stored = step.most_stored;
  time.compute = m * model_time.all() / pp;
  time.recomputed = m * model_time.recomputed / pp;
  time.bubble = layout.pp == 1 ? 0.0 : std::max(0.0, step.length * forward - time.compute - time.tp.all - time.cp.all);

  const double kept = rank_elements(model, layout) / static_cast<double>(layout.shards());
  time.update = update_seconds(kept, model, cluster);
  add_data_parallel(time, traffic, model, layout, stages * forward, stages * backward, cluster);
  if (layout.pp > 1) {
    const double message = message_seconds(rows * boundary_on_rank(model, layout), pp_group(layout), cluster);
    time.pp.all = message * traffic.pp.count;
    // Exposed on the path of the first micro-batch to the last stage, and of the last gradient back.
    time.pp.exposed = std::min(time.pp.all, 2.0 * message * (pp * stages - 1.0));
  }
  add_host(time, model, layout, kept, cluster);
  time.total = time.compute + time.update + time.bubble;
  for (const AxisTime& axis : {time.tp, time.cp, time.dp_shard, time.dp_replicate, time.pp, time.host})
    time.total += axis.exposed;
  return time;
}

}  // namespace modular
