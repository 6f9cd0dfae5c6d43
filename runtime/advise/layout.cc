#include "runtime/advise/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "runtime/parallel/tensor/dealt_runs.h"

namespace modular {

StageShares ModelProfile::stage_shares(int64_t pp, int64_t stages_per_rank, bool is_v) const {
  if (pp == 1) return {};
  const auto known = stages.find({pp, stages_per_rank, is_v});
  if (known != stages.end()) return known->second;
  const int64_t all = pp * stages_per_rank, held = std::max<int64_t>(layers, 1);
  const int64_t most = (held + all - 1) / all;  // layers of the largest stage
  return {std::min(1.0, static_cast<double>(most * stages_per_rank) / static_cast<double>(held)),
          static_cast<double>(most * all) / static_cast<double>(held)};
}

std::string Layout::describe() const {
  std::string text;
  const std::pair<const char*, int64_t> axes[] = {
      {"pp", pp}, {"dp_replicate", dp_replicate}, {"dp_shard", dp_shard}, {"cp", cp}, {"tp", tp}};
  const std::string_view last_of_shards = cp > 1 ? "cp" : "dp_shard";
  for (const auto& [name, size] : axes) {
    if (size == 1) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name, size);
    if (name == last_of_shards) text += fmt::format(" (ZeRO {})", zero_stage);
  }
  return text.empty() ? "1 device" : text;
}

namespace {

/// Adds `mesh` with every ZeRO stage, recomputation and offloading option.
void add_with_memory_options(std::vector<Layout>& layouts, const Layout& mesh, const LayoutSearch& search) {
  std::vector<Offloaded> offloads = {Offloaded::nothing};
  if (search.offloads) offloads = {Offloaded::nothing, Offloaded::optimizer, Offloaded::parameters};
  for (int64_t stage = mesh.shards() > 1 ? 1 : 3; stage <= 3; ++stage)
    for (size_t keeping = 0; keeping < search.keepings; ++keeping)
      for (const Offloaded offload : offloads) {
        // Parameters that are gathered once per step cannot stay in host memory between units.
        if (offload == Offloaded::parameters && stage < 3) continue;
        Layout layout = mesh;
        layout.zero_stage = stage;
        layout.keeping = keeping;
        layout.offload = offload;
        layouts.push_back(layout);
      }
}

void add_with_micro_batches(std::vector<Layout>& layouts, Layout mesh, const LayoutSearch& search) {
  for (const int64_t micro_batches : find_divisors(search.rows / mesh.data_parallel())) {
    mesh.micro_batches = micro_batches;
    if (mesh.pp == 1) {
      add_with_memory_options(layouts, mesh, search);
      continue;
    }
    for (const std::string& schedule : search.schedules) {
      mesh.schedule = schedule;
      const KnownSchedule& known = find_schedule(mesh);
      if (!search.makes(mesh.pp * known.usual_stages)) continue;
      if (!known.error(mesh.pp, known.usual_stages, micro_batches).empty()) continue;
      add_with_memory_options(layouts, mesh, search);
    }
  }
}

}  // namespace

std::vector<int64_t> find_divisors(int64_t number) {
  std::vector<int64_t> small, large;
  for (int64_t divisor = 1; divisor * divisor <= number; ++divisor) {
    if (number % divisor != 0) continue;
    small.push_back(divisor);
    if (divisor != number / divisor) large.push_back(number / divisor);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

std::vector<Layout> find_layouts(const Cluster& cluster, const LayoutSearch& search) {
  std::vector<Layout> layouts;
  const int64_t devices = cluster.devices();
  for (const int64_t tp : find_divisors(cluster.per_node)) {
    if (!search.divides(tp)) continue;
    for (const int64_t cp : find_divisors(devices / tp)) {
      if (cp > 1 && !search.divides_context(cp, tp)) continue;
      const int64_t others = devices / tp / cp;
      for (const int64_t pp : find_divisors(others))
        for (const int64_t dp_shard : find_divisors(others / pp)) {
          const Layout mesh{.pp = pp, .dp_replicate = others / pp / dp_shard, .dp_shard = dp_shard, .cp = cp, .tp = tp};
          if (search.rows % mesh.data_parallel() == 0) add_with_micro_batches(layouts, mesh, search);
        }
    }
  }
  return layouts;
}

bool divides_positions(const ModelProfile& model, const Layout& layout) {
  if (layout.tp == 1 || !model.sequence || model.lengths.empty()) return false;
  return std::ranges::all_of(model.lengths, [&](int64_t length) {
    const int64_t positions = layout.cp > 1 ? positions_of_rank(length, layout.cp, model.zigzag ? 2 : 1) : length;
    return positions % layout.tp == 0;
  });
}

ContextCost context_cost(const ModelProfile& model, const Layout& layout) {
  return layout.cp > 1 ? model.contexts.at({layout.cp, layout.tp}) : ContextCost();
}

double on_rank(const TpSplit& of_row, const ModelProfile& model, const Layout& layout) {
  return of_row.on(layout.tp, divides_positions(model, layout)) / static_cast<double>(layout.cp);
}

double boundary_on_rank(const ModelProfile& model, const Layout& layout) {
  return on_rank({model.boundary - model.boundary_parts, 0.0, model.boundary_parts}, model, layout);
}

const KnownSchedule& find_schedule(const Layout& layout) {
  return *std::ranges::find(known_schedules(), layout.schedule, &KnownSchedule::name);
}

int64_t stages_per_rank(const Layout& layout) {
  if (layout.pp == 1) return 1;
  return layout.stages_of_rank > 0 ? layout.stages_of_rank : find_schedule(layout).usual_stages;
}

RankElements split_rank_elements(const ModelProfile& model, const Layout& layout) {
  const bool is_v = layout.pp > 1 && find_schedule(layout).is_v;
  const StageShares shares = model.stage_shares(layout.pp, stages_per_rank(layout), is_v);
  // The token embedding is on the first stage and the head on the last; they usually have the same size.
  const double ends = layout.pp > 1 && !is_v ? 0.5 : 1.0;
  return {shares.fullest_rank * model.units.on(layout.tp), ends * model.root.on(layout.tp)};
}

double rank_elements(const ModelProfile& model, const Layout& layout) {
  const RankElements elements = split_rank_elements(model, layout);
  return elements.units + elements.root;
}

bool splits_backwards(const ModelProfile& model, const Layout& layout) {
  return layout.dp_replicate == 1 && layout.shards() == 1 && !model.keepings[layout.keeping].one_piece &&
         layout.offload != Offloaded::parameters;
}

}  // namespace modular
