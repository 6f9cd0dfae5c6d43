#include "runtime/advise/profile_model.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/advise/layout.h"
#include "runtime/config/config_field.h"
#include "runtime/data/examples.h"
#include "runtime/datasets/run_datasets.h"
#include "runtime/parallel/parallel_model.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/parameter_table.h"
#include "runtime/parallel/tensor/context_parallel.h"
#include "runtime/plan/run_plan.h"
#include "runtime/train/device_usage.h"
#include "runtime/train/preflight.h"

namespace modular {
namespace {

double as_double(int64_t number) { return static_cast<double>(number); }

struct Table {
  Model model;
  ParameterTable parameters;
};

Table get_table(const ModelConfig& network, const std::vector<std::string>& units) {
  Table table{build_on_meta(*network.entry, *network.config), {}};
  table.parameters = parameter_table(*table.model.module, *network.entry->plan, *network.config, {}, units);
  return table;
}

/// Adds parameter counts to `profile` and returns the number of active parameters per token.
int64_t add_parameters(ModelProfile& profile, const ParameterTable& table) {
  std::vector<TpSplit> units(table.units.size());
  int64_t active_parameters = 0;
  double matrices = 0.0, widths = 0.0;
  for (const ModelParameter& parameter : table.parameters) {
    const double elements = as_double(c10::multiply_integers(parameter.global_shape));
    (parameter.tensor_split ? units[parameter.unit].split : units[parameter.unit].replicated) += elements;
    for (const int64_t count : parameter.multiplied) active_parameters += count;
    if (!parameter.layer_matrix) continue;
    const auto& shape = parameter.global_shape;
    matrices += elements;
    widths += elements * as_double(std::min(shape[shape.size() - 1], shape[shape.size() - 2]));
  }
  profile.root = units.front();
  profile.width = matrices > 0.0 ? widths / matrices : 1.0;
  for (size_t unit = 1; unit < units.size(); ++unit) {
    profile.units.replicated += units[unit].replicated;
    profile.units.split += units[unit].split;
    if (units[unit].all() > profile.largest_unit.all()) profile.largest_unit = units[unit];
    if (units[unit].all() > 0.0) profile.last_unit = units[unit];
    profile.unit_count += units[unit].all() > 0.0 ? 1 : 0;
  }
  if (profile.unit_count == 0) profile.largest_unit = profile.root;
  return active_parameters;
}

int64_t tokens_of_row(const RunConfig& config) {
  if (!config.reads(&DataFormat::has_rows)) return config.train.seq_len;
  const std::shared_ptr<const Dataset> dataset = open_training_data(config).front().training;
  if (!dataset->examples()) return dataset->tokens();
  const auto shape = dataset->examples()->row_shape("input_ids");
  return std::reduce(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());  // over all texts of a sample
}

/// Fraction of the forward time that is recomputed.
double recomputed_fraction(const Recomputation& recompute) {
  if (recompute.every > 0) return 1.0 / as_double(recompute.every);
  static constexpr std::pair<std::string_view, double> kOperations[] = {
      {"norm", 0.03}, {"activation", 0.03}, {"attention", 0.1}};
  double fraction = 0.0;
  for (const auto& [name, time] : kOperations)
    if (std::ranges::find(recompute.operations, name) != recompute.operations.end()) fraction += time;
  return fraction;
}

double at_peak(const RankPlan& rank, Held held) { return as_double(rank.step.held[static_cast<size_t>(held)]); }

/// Splits a rank's bytes into replicated parts and those that tp ranks split, given the bytes on one rank and on each
/// of `tp` ranks without and with sequence parallelism.
TpSplit split_bytes(double one, double several, double in_parts, int64_t tp) {
  if (tp == 1) return {one, 0.0};
  const double times = as_double(tp) / as_double(tp - 1);
  const double split = std::clamp((one - several) * times, 0.0, one);
  const double between = std::clamp((several - in_parts) * times, 0.0, one - split);
  return {one - split - between, split, between};
}

AxisTraffic over(const RankPlan& rank, const std::string& axis) {
  const auto found = rank.traffic.find(axis);
  return found == rank.traffic.end() ? AxisTraffic() : found->second;
}

Keeping to_keeping(const RunConfig& config, Recomputation recompute, int64_t tp, bool sequence) {
  RunConfig tried = to_single_rank(config);
  tried.parallel.recompute = recompute;
  const RankPlan one = make_run_plan(tried, 1).ranks.front();
  tried.parallel.tp = tp;
  tried.parallel.sequence = false;
  const RankPlan several = tp > 1 ? make_run_plan(tried, tp).ranks.front() : one;
  tried.parallel.sequence = config.parallel.sequence;
  const RankPlan in_parts = sequence ? make_run_plan(tried, tp).ranks.front() : several;
  Keeping keeping;
  keeping.setting = toml_value(&recompute);
  keeping.recomputed = recomputed_fraction(recompute);
  keeping.one_piece = static_cast<bool>(recompute);
  const auto split = [&](const auto& bytes) { return split_bytes(bytes(one), bytes(several), bytes(in_parts), tp); };
  keeping.activations = split([](const RankPlan& rank) { return as_double(rank.step.one_forward); });
  keeping.working = split([](const RankPlan& rank) { return at_peak(rank, Held::working); });
  if (tp == 1) return keeping;
  // In an all-reduce a rank receives 2 (tp - 1) / tp of the tensor, in an all-gather or reduce-scatter half of that.
  const AxisTraffic sums = over(several, "tp"), gathers = over(in_parts, "tp");
  keeping.summed_over_tp = sums.bytes * as_double(tp) / (2.0 * as_double(tp - 1));
  keeping.sums_over_tp = sums.collectives;
  keeping.gathered_over_tp = gathers.bytes * as_double(tp) / as_double(tp - 1);
  keeping.gathers_over_tp = gathers.collectives;
  return keeping;
}

/// The plan of a rank with one row on the mesh of `layout`. With dp_shard 1, traffic over cp includes parameters.
std::optional<RankPlan> plan_context(const RunConfig& config, const Layout& layout, const Recomputation& recompute) {
  RunConfig tried = to_single_rank(config);
  tried.parallel.recompute = recompute;
  tried.parallel.dp_shard = layout.dp_shard;
  tried.parallel.cp = layout.cp;
  tried.parallel.tp = layout.tp;
  tried.train.batch_size = layout.data_parallel();
  try {
    return make_run_plan(tried, layout.devices()).ranks.front();
  } catch (const std::exception&) {  // the model cannot be divided, or has too few positions or heads
    return {};
  }
}

/// Bytes that a rank's forward keeps beyond 1 / cp of what `activations` says.
double kept_keys(const RankPlan& rank, const TpSplit& activations, const ModelProfile& profile, const Layout& layout) {
  return std::max(0.0, as_double(rank.step.one_forward) - on_rank(activations, profile, layout));
}

/// Adds the costs of context parallelism for each of `contexts`, and how recomputation changes them.
/// `profile.values` and the activations of `profile.keepings` include the head.
void add_contexts(ModelProfile& profile, const RunConfig& config, const std::vector<Recomputation>& recomputations,
                  const std::vector<ContextSizes>& contexts) {
  RunConfig gathering = config;
  gathering.parallel.cp_attention = "all-gather";
  std::optional<int64_t> gathers;  // collectives if keys are gathered: the same number for all sizes
  for (const auto& [cp, tp] : contexts) {
    const Layout layout{.dp_shard = 2, .cp = cp, .tp = tp};
    const auto rank = plan_context(config, layout, {});
    if (!rank) continue;
    if (!gathers) gathers = over(plan_context(gathering, layout, {}).value(), "cp").collectives;
    const AxisTraffic traffic = over(*rank, "cp");
    // Heads are exchanged in twice as many collectives.
    profile.contexts[{cp, tp}] = {traffic.bytes, traffic.collectives > *gathers ? traffic.bytes : 0.0,
                                  traffic.collectives, kept_keys(*rank, profile.values, profile, layout)};
  }
  if (profile.contexts.empty()) return;
  const auto& [sizes, cost] =
      *std::ranges::max_element(profile.contexts, {}, [](const auto& context) { return context.second.kept; });
  for (size_t i = 0; i < recomputations.size(); ++i) {
    const Layout layout{.dp_shard = 2, .cp = sizes.first, .tp = sizes.second};
    const auto rank = recomputations[i] ? plan_context(config, layout, recomputations[i]) : std::nullopt;
    if (!rank) continue;
    Keeping& keeping = profile.keepings[i];
    if (cost.received > 0.0) keeping.context_traffic = over(*rank, "cp").bytes / cost.received;
    if (cost.kept > 0.0) keeping.context_kept = kept_keys(*rank, keeping.activations, profile, layout) / cost.kept;
  }
}

/// Numbers of positions of the sequences of a row that ranks may divide: the tokens', and those of a second stack.
std::vector<int64_t> sequence_lengths(const RunConfig& config) {
  if (!config.reads(&DataFormat::has_rows)) return {config.train.seq_len};
  const std::shared_ptr<const Dataset> dataset = open_training_data(config).front().training;
  if (!dataset->examples()) return {dataset->tokens()};
  std::vector<int64_t> lengths;
  const auto add = [&](const char* name) {
    const auto shape = dataset->examples()->row_shape(name);
    if (!shape.empty()) lengths.push_back(shape.back());
    return !shape.empty();
  };
  add("input_ids");
  if (config.network.entry->plan->sequence.size() > 1 && !add("decoder_input_ids")) add("labels");
  return lengths;
}

/// Whether the ranks have equal work: by zigzag, or by a balanced layout.
bool has_zigzag(const RunConfig& config) {
  return find_layout(*config.network.entry, to_context_layout(config.parallel.cp_layout)) !=
         ContextOptions::Layout::contiguous;
}

/// Adds the boundary size and the last stage's head, from plans of two-stage pipelines; with sequence parallelism also
/// on `tp` ranks per stage, if `tp` is larger than 1.
void add_pipeline(ModelProfile& profile, const RunConfig& config, const Table& table, int64_t tp) {
  const Plan& plan = *config.network.entry->plan;
  RunConfig tried = to_single_rank(config);
  tried.parallel.pp = 2;
  if (!ParallelModel::error(*config.network.entry, *config.network.config, tried.parallel.mesh_shape(2),
                            tried.parallel_options().pipeline)
           .empty())
    return;
  const auto costs = layer_costs(table.parameters, plan, stack_sizes(*table.model.module, plan));
  const double first = as_double(stage_cuts(tried.parallel_options().pipeline, 2, costs).front());
  const RunPlan once = make_run_plan(tried, 2);
  const auto message_bytes = [&](const RankPlan& with_one, int64_t tp_ranks) {
    RunConfig two = tried;
    two.parallel.tp = tp_ranks;
    two.train.batch_size = two.train.micro_batches = 2;
    // Subtract the once-per-step all-reduce over pp of tables that two stages share.
    return over(make_run_plan(two, 2 * tp_ranks).ranks.back(), "pp").bytes - over(with_one, "pp").bytes;
  };
  profile.boundary = message_bytes(once.ranks.back(), 1);
  if (tp > 1) {
    RunConfig parts = tried;
    parts.parallel.tp = tp;
    const double of_part = message_bytes(make_run_plan(parts, 2 * tp).ranks.back(), tp);
    profile.boundary_parts =
        std::clamp((profile.boundary - of_part) * as_double(tp) / as_double(tp - 1), 0.0, profile.boundary);
  }
  const double bytes_per_layer = as_double(once.ranks.front().step.one_forward) / first;
  const double head = std::max(
      0.0, as_double(once.ranks.back().step.one_forward) - bytes_per_layer * (as_double(profile.layers) - first));
  // Logits are split over tp and belong to no recomputed unit.
  for (Keeping& keeping : profile.keepings) {
    TpSplit& kept = keeping.activations;
    keeping.head = {std::max(0.0, std::min(head - kept.split, kept.replicated)), std::min(head, kept.split)};
    kept = {kept.replicated - keeping.head.replicated, kept.split - keeping.head.split, kept.between};
    // The backward starts with the gradient of the logits. A recomputed unit's activations are alive during its own
    // backward.
    keeping.working = keeping.head;
    if (keeping.recomputed < 1.0) continue;
    keeping.working.replicated += profile.values.replicated / as_double(profile.layers);
    keeping.working.split += profile.values.split / as_double(profile.layers);
    keeping.working.between += profile.values.between / as_double(profile.layers);
  }
}

}  // namespace

RunConfig to_single_rank(const RunConfig& config) {
  RunConfig one = config;
  auto& parallel = one.parallel;
  parallel.pp = parallel.dp_replicate = parallel.dp_shard = parallel.cp = parallel.tp = parallel.dp_threads = 1;
  parallel.zero_stage = 3;
  parallel.schedule = "1f1b";
  parallel.stages_per_rank = 0;
  parallel.cuts.clear();
  parallel.offload.clear();
  parallel.memory.clear();
  parallel.recompute = {};
  one.train.batch_size = one.train.micro_batches = 1;
  one.train.batch_size_per_rank = 0;
  return one;
}

std::vector<Recomputation> default_recomputations(const ParallelSection& parallel) {
  std::vector<Recomputation> usual(2);
  usual[1].operations = {"norm", "activation"};
  if (!parallel.units.empty()) usual.emplace_back(/*all_units=*/true);
  return usual;
}

std::vector<ContextSizes> find_contexts(const RunConfig& config, const Cluster& cluster) {
  constexpr int64_t kFewestPositions = 256;  // of a run: attention to few positions costs more to start than to compute
  constexpr int64_t kMostRanks = 64;
  const int64_t runs = has_zigzag(config) ? 2 : 1;
  const std::vector<int64_t> lengths = sequence_lengths(config);
  if (lengths.empty() || std::ranges::min(lengths) < kLongSequence) return {};
  std::vector<ContextSizes> sizes;
  for (const int64_t tp : find_divisors(cluster.per_node))
    for (const int64_t cp : find_divisors(cluster.devices() / tp)) {
      if (cp == 1 || cp > kMostRanks || !context_error(*config.network.entry, cp).empty()) continue;
      if (positions_of_rank(std::ranges::min(lengths), cp, runs) / runs >= kFewestPositions) sizes.emplace_back(cp, tp);
    }
  return sizes;
}

ProfiledModel profile_model(const RunConfig& config, const std::vector<Recomputation>& recomputations,
                            const std::vector<int64_t>& tps, const std::vector<ContextSizes>& contexts) {
  ProfiledModel model{{}, recomputations, {}};
  ModelProfile& profile = model.profile;
  const RunConfig one = to_single_rank(config);
  for (const int64_t tp : tps) {
    MeshShape shape;
    shape[Axis::tp] = tp;
    if (tp == 1 || ParallelModel::error(*config.network.entry, *config.network.config, shape).empty())
      model.tps.push_back(tp);
  }
  check_run_config(one, 1);

  const Table table = get_table(config.network, config.parallel.units);
  const int64_t active_parameters = add_parameters(profile, table.parameters);
  const auto sizes = stack_sizes(*table.model.module, *config.network.entry->plan);
  profile.layers = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  profile.tokens_of_row = tokens_of_row(config);
  profile.flops_of_row = flops_per_row(config.network, active_parameters, profile.tokens_of_row)
                             .value_or(6.0 * as_double(active_parameters) * as_double(profile.tokens_of_row));
  profile.lengths = sequence_lengths(config);
  profile.zigzag = has_zigzag(config);
  using enum ContextOptions::Layout;
  if (!profile.zigzag && find_layout(*config.network.entry, automatic) == zigzag)
    profile.skewed_flops =
        std::max(0.0, profile.flops_of_row - 6.0 * as_double(active_parameters) * as_double(profile.tokens_of_row));
  profile.gathered_bytes = config.parallel.bf16 ? 2.0 : 4.0;
  profile.prefetch = config.parallel.prefetch;
  profile.optimizer_bytes =
      at_peak(make_run_plan(one, 1).ranks.front(), Held::optimizer) / std::max(profile.elements(), 1.0);

  const auto found = std::ranges::find_if(model.tps, [](int64_t tp) { return tp > 1; });
  const int64_t several = found == model.tps.end() ? 1 : *found;
  profile.sequence = config.parallel.sequence.value_or(true) && !config.network.entry->plan->sequence.empty();
  profile.sequence = divides_positions(profile, {.tp = several});
  const auto make_keeping = [&](const Recomputation& recompute) {
    return to_keeping(config, recompute, several, profile.sequence);
  };
  profile.keepings.clear();
  for (const Recomputation& recompute : recomputations) profile.keepings.push_back(make_keeping(recompute));
  profile.values = (recomputations.front() ? make_keeping({}) : profile.keepings.front()).activations;
  add_contexts(profile, config, recomputations, contexts);
  if (profile.layers > 1) add_pipeline(profile, config, table, profile.sequence ? several : 1);
  return model;
}

void add_stages(ModelProfile& profile, const RunConfig& config, const std::vector<Layout>& pipelines) {
  const Plan& plan = *config.network.entry->plan;
  const Table table = get_table(config.network, config.parallel.units);
  const auto sizes = stack_sizes(*table.model.module, plan);
  if (sizes.empty()) return;
  const auto costs = layer_costs(table.parameters, plan, sizes);
  for (const Layout& layout : pipelines) {
    const int64_t stages = layout.pp * stages_per_rank(layout);
    const std::tuple key{layout.pp, stages_per_rank(layout), find_schedule(layout).is_v};
    if (layout.pp == 1 || stages > static_cast<int64_t>(costs.size()) || profile.stages.contains(key)) continue;
    const PipelineOptions options{layout.schedule, layout.stages_of_rank, config.parallel.cuts};
    auto bounds = stage_cuts(options, layout.pp, costs);
    bounds.insert(bounds.begin(), 0);
    bounds.push_back(static_cast<int64_t>(costs.size()));
    const auto placement = stage_placement(options, layout.pp);
    std::vector<int64_t> layers_of_rank(static_cast<size_t>(layout.pp));
    int64_t costliest = 0;
    for (size_t stage = 0; stage < placement.size(); ++stage) {
      layers_of_rank[static_cast<size_t>(placement[stage])] += bounds[stage + 1] - bounds[stage];
      costliest = std::max(
          costliest, std::accumulate(costs.begin() + bounds[stage], costs.begin() + bounds[stage + 1], int64_t{0}));
    }
    const double all = as_double(std::accumulate(costs.begin(), costs.end(), int64_t{0}));
    profile.stages[key] = {as_double(std::ranges::max(layers_of_rank)) / as_double(static_cast<int64_t>(costs.size())),
                           as_double(costliest * stages) / std::max(all, 1.0)};
  }
}

RunConfig to_config(const RunConfig& config, const Layout& layout, const std::vector<Recomputation>& recomputations) {
  RunConfig result = config;
  auto& parallel = result.parallel;
  parallel.pp = layout.pp;
  parallel.dp_replicate = layout.dp_replicate;
  parallel.dp_shard = layout.dp_shard;
  parallel.cp = layout.cp;
  parallel.tp = layout.tp;
  parallel.dp_threads = 1;
  parallel.zero_stage = layout.zero_stage;
  parallel.schedule = layout.schedule;
  parallel.stages_per_rank = layout.pp > 1 ? layout.stages_of_rank : 0;
  if (layout.pp != config.parallel.pp || layout.schedule != config.parallel.schedule) parallel.cuts.clear();
  parallel.recompute = recomputations.at(layout.keeping);
  parallel.offload.clear();
  if (layout.offload == Offloaded::optimizer) parallel.offload = {"optimizer"};
  if (layout.offload == Offloaded::parameters) parallel.offload = {"parameters"};
  parallel.memory.clear();
  result.train.micro_batches = layout.micro_batches;
  result.train.batch_size_per_rank = 0;
  return result;
}

}  // namespace modular
