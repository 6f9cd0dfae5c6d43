#include "runtime/advise/memory_estimate.h"

#include <algorithm>

#include "runtime/advise/stages_on_ranks.h"

namespace modular {

MemoryEstimate estimate_memory(const ModelProfile& model, const Layout& layout, double rows, int64_t stored) {
  constexpr double kFloat = 4.0;
  const RankElements elements = split_rank_elements(model, layout);
  const double all = elements.units + elements.root, kept = all / static_cast<double>(layout.dp_shard);
  const bool sharded = layout.dp_shard > 1, on_device = layout.offload != Offloaded::parameters;
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
  const double row = stage_fraction * keeping.activations.on(layout.tp), head = keeping.head.on(layout.tp);
  // In a V, rank 0 has the first stage's stored activations and the head. Otherwise the last rank has the head and one
  // micro-batch.
  memory.activations =
      rows * (layout.pp == 1 || is_v ? static_cast<double>(stored) * row + head
                                     : std::max(static_cast<double>(stored) * row, stages * row + head));
  memory.working = rows * keeping.working.on(layout.tp);

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

}  // namespace modular
