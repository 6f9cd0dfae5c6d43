#include "runtime/advise/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/advise/layout.h"
#include "runtime/advise/profile_model.h"
#include "runtime/advise/step_time.h"
#include "runtime/parallel/pipeline/known_schedules.h"
#include "runtime/plan/run_plan.h"
#include "runtime/train/preflight.h"

namespace modular {
namespace {

/// Describes what fits on one device: the first part of every case of the guide.
std::string describe_fit(const GuideCase& found, const Cluster& cluster) {
  const std::string room = format_bytes(cluster.usable_memory());
  switch (found.fit) {
    case GuideCase::Fit::model:
      return fmt::format("The model fits one device: training needs {} of {} with one row per micro-batch.",
                         format_bytes(found.model_bytes), room);
    case GuideCase::Fit::layer:
      return fmt::format(
          "The model does not fit one device: training needs {}, and a device has {}. Its largest layer fits, with "
          "{}.",
          format_bytes(found.model_bytes), room, format_bytes(found.layer_bytes));
    case GuideCase::Fit::not_even_a_layer:
      return fmt::format("Not even the largest layer fits one device: training needs {}, and a device has {}.",
                         format_bytes(found.layer_bytes), room);
  }
  return {};
}

std::string advise_within_node(const GuideCase& found, const Cluster& cluster) {
  if (cluster.per_node == 1) return {};
  switch (found.fit) {
    case GuideCase::Fit::model:
      return "Replicate the model over the devices of a node (DDP), or shard its state (ZeRO), which may be faster or "
             "slower.";
    case GuideCase::Fit::layer:
      return "With fast links within a node, pipeline stages, ZeRO and tensor parallelism are about equally fast; with "
             "slow links the pipeline is fastest. Tensor-parallel ranks stay within a node.";
    case GuideCase::Fit::not_even_a_layer:
      return fmt::format(
          "Pipeline stages alone do not help: split the layer by tensor parallelism over at most the {} devices of a "
          "node, or shard its state with ZeRO, with recomputation and offloading if necessary.",
          cluster.per_node);
  }
  return {};
}

std::string advise_between_nodes(const GuideCase& found, const Cluster& cluster) {
  const std::string nodes =
      fmt::format("{} nodes with {} links between them ({:.0f} GB/s per node, {:.0f} GB/s per device within a node)",
                  cluster.nodes, found.fast_between ? "fast" : "slow",
                  cluster.between * static_cast<double>(cluster.per_node) / 1e9, cluster.link / 1e9);
  if (found.fast_between)
    return nodes +
           ": ZeRO over all devices is simplest; combined pipeline, tensor and data parallelism communicate less, "
           "which pays off if ZeRO waits for communication.";
  if (found.fit == GuideCase::Fit::model)
    return nodes + ": replicate over nodes, so that gradients cross once per step, and shard within nodes.";
  return nodes +
         ": combine data parallelism, a pipeline over nodes and tensor parallelism within nodes, with ZeRO 1, to "
         "minimize traffic between nodes.";
}

}  // namespace

GuideCase guide_case(const ModelProfile& model, const Cluster& cluster) {
  GuideCase found;
  const Layout alone{.micro_batches = 2};
  found.model_bytes = estimate_memory(model, alone, 1.0, 1).peak;
  // Parameters, gradients, optimizer state, and the compute copy if it has another type.
  const double bytes_per_element =
      8.0 + model.optimizer_bytes + (model.gathered_bytes < 4.0 ? model.gathered_bytes : 0.0);
  const double largest = std::max(model.largest_unit.all(), 0.5 * model.root.all());
  const double layer_activations =
      model.keepings.front().activations.all() / static_cast<double>(std::max<int64_t>(model.layers, 1));
  found.layer_bytes = bytes_per_element * largest + layer_activations;
  if (found.model_bytes > cluster.usable_memory())
    found.fit = found.layer_bytes > cluster.usable_memory() ? GuideCase::Fit::not_even_a_layer : GuideCase::Fit::layer;
  found.many_nodes = cluster.nodes > 1;
  found.fast_between =
      !found.many_nodes || cluster.between * static_cast<double>(cluster.per_node) >= 0.5 * cluster.link;

  found.sentences.push_back(describe_fit(found, cluster));
  if (cluster.devices() == 1 && found.fit != GuideCase::Fit::model)
    found.sentences.emplace_back("On one device, use recomputation, smaller micro-batches and offloading.");
  if (std::string within = advise_within_node(found, cluster); !within.empty())
    found.sentences.push_back(std::move(within));
  if (found.many_nodes) found.sentences.push_back(advise_between_nodes(found, cluster));
  return found;
}

namespace {

void sort_by_time(std::vector<Choice>& choices) {
  const auto key = [](const Choice& choice) {
    const Layout& layout = choice.layout;
    const int64_t axes = std::ranges::count_if(layout.mesh(), [](int64_t size) { return size > 1; }) +
                         (layout.offload != Offloaded::nothing);
    return std::tuple(std::llround(std::log(choice.time.total) * 200.0), axes, layout.keeping, -layout.zero_stage,
                      layout.pp, layout.cp, layout.tp, choice.time.total, layout.micro_batches, layout.schedule);
  };
  std::ranges::sort(choices, {}, key);
}

}  // namespace

Choice estimate(const ModelProfile& model, const Layout& layout, int64_t batch, const Cluster& cluster,
                PipelineClock& clock) {
  Choice choice;
  choice.layout = layout;
  choice.rows = static_cast<double>(batch) / static_cast<double>(layout.data_parallel() * layout.micro_batches);
  choice.time = step_time(model, layout, choice.rows, cluster, clock);
  choice.estimated = estimate_memory(model, layout, choice.rows, choice.time.stored);
  return choice;
}

std::vector<Choice> estimate_all(const ModelProfile& model, const Cluster& cluster, const LayoutSearch& search) {
  PipelineClock clock;
  std::vector<Choice> choices;
  for (const Layout& layout : find_layouts(cluster, search))
    choices.push_back(estimate(model, layout, search.rows, cluster, clock));
  sort_by_time(choices);
  return choices;
}

namespace {

/// Tolerance: an estimate may exceed the planned memory by this factor.
constexpr double kEstimateSlack = 1.25;
/// Limits on plans: per mesh, and in total per requested mesh. Further layouts are assumed not to fit.
constexpr int64_t kPlansPerMesh = 3, kPlansPerChoice = 10;

void check(const RunConfig& config, const Cluster& cluster) {
  const TrainSection& train = config.train;
  if (std::string error = find_error(cluster); !error.empty()) throw ConfigError(error);
  if (train.batch_size_per_rank > 0)
    throw ConfigError(
        fmt::format("train.batch_size_per_rank = {} gives each mesh a different global batch, so that meshes cannot "
                    "be compared: set it to 0, and set train.batch_size",
                    train.batch_size_per_rank));
}

/// Returns the planned peak memory on the device. A plan also counts offloaded tensors, so with offloading the estimate
/// is used: returns nullopt.
std::optional<int64_t> planned_peak(const RunConfig& config, int64_t devices, bool offloads) {
  const RunPlan plan = make_run_plan(config, devices);
  if (offloads) return {};
  int64_t most = 0;
  for (const RankPlan& rank : plan.ranks) most = std::max({most, rank.step.bytes, rank.start.bytes});
  return most;
}

/// Layouts that were planned and rejected.
struct Rejected {
  std::optional<Choice> nearest;  // the layout that needs the least memory among those that do not fit
  std::string error;              // error of a layout that cannot be trained
};

/// Reports that no layout fits. All others exceed the memory by estimate, or were skipped after the limit on plans.
[[noreturn]] void throw_nothing_fits(const std::vector<Choice>& choices, const Rejected& rejected,
                                     const ModelProfile& model, const Cluster& cluster, const LayoutSearch& search) {
  if (choices.empty())
    throw ConfigError(
        fmt::format("no mesh of {} devices divides {} rows per step and this model: change train.batch_size to a "
                    "multiple of {}, or the number of devices",
                    cluster.devices(), search.rows, cluster.devices()));
  const auto peak = [](const Choice& choice) { return choice.memory(); };
  const Choice& estimated = *std::ranges::min_element(choices, {}, peak);
  const bool should_fit = peak(estimated) <= cluster.usable_memory();
  if (should_fit && !rejected.nearest && !rejected.error.empty()) throw ConfigError(rejected.error);
  const Choice& least = should_fit && rejected.nearest ? *rejected.nearest : estimated;
  const double memory = peak(least) / (1.0 - cluster.reserve);
  std::string remedy = fmt::format("pass --memory {:.0f}MiB", std::ceil(memory / 0x1p20));
  if (memory > 0x1p30) remedy = fmt::format("pass --memory {:.0f}GiB", std::ceil(memory / 0x1p30));
  Cluster larger = cluster;
  larger.between = std::max(cluster.between, 0.1 * cluster.link);  // not set for a single node
  if (larger.link == 0.0) larger.link = larger.between = 1e9;
  for (int64_t times = 2; times <= 64; times *= 2) {
    larger.nodes = cluster.nodes * times;
    const auto others = estimate_all(model, larger, search);
    if (std::ranges::none_of(others, [&](const Choice& other) { return peak(other) <= larger.usable_memory(); }))
      continue;
    remedy += fmt::format(", --nodes {}", larger.nodes);
    break;
  }
  throw ConfigError(fmt::format(
      "nothing fits: a device needs at least {} ({}, {} rows per micro-batch), and {} of --memory "
      "are usable: {}, reduce train.seq_len, or use a smaller model",
      format_bytes(peak(least)), least.layout.describe(), least.rows, format_bytes(cluster.usable_memory()), remedy));
}

LayoutSearch to_search(const TrainSection& train, const ProfiledModel& model) {
  LayoutSearch search;
  search.rows = train.batch_size;
  search.keepings = model.recomputations.size();
  search.divides = [tps = model.tps](int64_t tp) { return std::ranges::find(tps, tp) != tps.end(); };
  // Without a boundary the model cannot be split into stages.
  const int64_t layers = model.profile.boundary > 0.0 ? model.profile.layers : 1;
  search.makes = [layers](int64_t stages) { return stages <= layers; };
  search.divides_context = [contexts = model.profile.contexts](int64_t cp, int64_t tp) {
    return contexts.contains({cp, tp});
  };
  return search;
}

/// Plans `choices` in order until `top` meshes fit.
Rejected plan_best(Advice& advice, const std::vector<Choice>& choices, const RunConfig& config,
                   const ProfiledModel& model, const Cluster& cluster, int64_t top) {
  Rejected rejected;
  auto& nearest = rejected.nearest;
  std::map<std::array<int64_t, 5>, int64_t> plans;  // by mesh
  int64_t all = 0;
  for (const Choice& candidate : choices) {
    if (static_cast<int64_t>(advice.choices.size()) == top || all == kPlansPerChoice * top) break;
    if (candidate.estimated.peak > cluster.usable_memory() * kEstimateSlack) continue;
    const Layout& layout = candidate.layout;
    int64_t& mesh_plans = plans[layout.mesh()];
    if (mesh_plans == kPlansPerMesh) continue;
    Choice choice = candidate;
    RunConfig layout_config = to_config(config, layout, model.recomputations);
    ++mesh_plans, ++all, ++advice.planned;
    try {
      choice.planned = planned_peak(layout_config, cluster.devices(), layout.offload != Offloaded::nothing);
    } catch (const ConfigError& error) {
      rejected.error = error.what();
      continue;
    }
    if (choice.memory() > cluster.usable_memory()) {
      if (!nearest || choice.memory() < nearest->memory()) nearest = std::move(choice);
      continue;
    }
    mesh_plans = kPlansPerMesh;  // the best layout of this mesh is known
    advice.choices.push_back(std::move(choice));
    advice.configs.push_back(std::move(layout_config));
  }
  return rejected;
}

}  // namespace

Advice advise(const RunConfig& config, const Cluster& cluster, int64_t top) {
  check(config, cluster);
  ProfiledModel model = profile_model(config, default_recomputations(config.parallel), find_divisors(cluster.per_node),
                                      find_contexts(config, cluster));
  LayoutSearch search = to_search(config.train, model);
  RunConfig uncut = config;
  uncut.parallel.cuts.clear();
  add_stages(model.profile, uncut, find_layouts(cluster, search));

  Advice advice{.model = model.profile, .guide = guide_case(model.profile, cluster)};
  std::vector<Choice> choices;
  Rejected rejected;
  for (const bool offloads : {false, true}) {
    search.offloads = offloads;
    choices = estimate_all(model.profile, cluster, search);
    advice.tried = static_cast<int64_t>(choices.size());
    advice.fitting = std::ranges::count_if(
        choices, [&](const Choice& choice) { return choice.estimated.peak <= cluster.usable_memory(); });
    rejected = plan_best(advice, choices, config, model, cluster, top);
    if (!advice.choices.empty()) return advice;
  }
  throw_nothing_fits(choices, rejected, model.profile, cluster, search);
}

Advice assess(const RunConfig& config, const Cluster& cluster) {
  check(config, cluster);
  const MeshShape mesh = check_run_config(config, cluster.devices());
  Layout layout{.pp = mesh[Axis::pp],
                .dp_replicate = mesh[Axis::dp_replicate],
                .dp_shard = mesh[Axis::dp_shard],
                .cp = mesh[Axis::cp],
                .tp = mesh[Axis::tp],
                .zero_stage = config.parallel.zero_stage,
                .micro_batches = config.train.micro_batches,
                .schedule = config.parallel.schedule,
                .stages_of_rank = config.parallel.stages_per_rank};
  if (std::ranges::find(known_schedules(), layout.schedule, &KnownSchedule::name) == known_schedules().end())
    throw ConfigError(
        fmt::format("parallel.schedule is {}, a file, whose time cannot be estimated: set it to a built-in schedule",
                    config.parallel.schedule));
  const Offload offload = to_offload(config.parallel.offload);
  layout.offload = offload.parameters  ? Offloaded::parameters
                   : offload.optimizer ? Offloaded::optimizer
                                       : Offloaded::nothing;
  std::vector<int64_t> tps = {1};
  if (layout.tp > 1) tps.push_back(layout.tp);
  RunConfig layout_config = config;
  const int64_t batch = config.batch_shape(mesh, 0).global();  // throws if the batch is not divisible
  // First, because its errors name what the mesh does not divide.
  const auto planned = planned_peak(layout_config, cluster.devices(), layout.offload != Offloaded::nothing);
  std::vector<ContextSizes> contexts;
  if (layout.cp > 1) contexts.emplace_back(layout.cp, layout.tp);
  ProfiledModel model = profile_model(config, {config.parallel.recompute}, tps, contexts);
  add_stages(model.profile, config, {layout});

  Advice advice{.model = model.profile, .guide = guide_case(model.profile, cluster), .tried = 1, .planned = 1};
  PipelineClock clock;
  Choice choice = estimate(model.profile, layout, batch, cluster, clock);
  choice.planned = planned;
  advice.fitting = choice.memory() <= cluster.usable_memory() ? 1 : 0;
  advice.choices.push_back(std::move(choice));
  advice.configs.push_back(std::move(layout_config));
  return advice;
}

double run_hours(const TrainSection& train, const StepTime& time) {
  return static_cast<double>(train.steps) * time.total / 3600.0;
}

double run_cost(const TrainSection& train, const StepTime& time, const Cluster& cluster) {
  return run_hours(train, time) * static_cast<double>(cluster.devices()) * cluster.cost;
}

}  // namespace modular
