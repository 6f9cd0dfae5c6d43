// `modrun plan`: shows the distribution of a run over its ranks, with memory and communication.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/parameter_table.h"
#include "runtime/parallel/parameters/uneven_splits.h"
#include "runtime/parallel/pipeline/pipeline_schedule.h"
#include "runtime/plan/run_plan.h"

namespace modular {
namespace {

using Json = nlohmann::ordered_json;

struct PlanArguments : ConfigArguments {
  int64_t ranks = 0;  // 0: from the launcher's flags
  std::string format = "text";
};

double mebibytes(double bytes) { return bytes / (1 << 20); }

/// Parameters of a unit: all, those split by tp, and the maximum that a rank stores.
struct UnitSizes {
  std::string name, class_name;
  int64_t all = 0, split = 0, kept = 0;
};

/// Where the stages of a pipeline begin, as the end of a sentence.
std::string describe_cuts(const PipelineOptions& pipeline, const Plan& plan, const Model& model,
                          const ParameterTable& table, int64_t pp) {
  const auto costs = layer_costs(table, plan, stack_sizes(*model.module, plan));
  auto bounds = stage_cuts(pipeline, pp, costs);
  const std::string cuts = fmt::format("{}", fmt::join(bounds, ", "));
  bounds.insert(bounds.begin(), 0);
  bounds.push_back(static_cast<int64_t>(costs.size()));
  int64_t most = 0;
  for (size_t stage = 0; stage + 1 < bounds.size(); ++stage)
    most =
        std::max(most, std::accumulate(costs.begin() + bounds[stage], costs.begin() + bounds[stage + 1], int64_t{0}));
  const auto all = static_cast<double>(std::accumulate(costs.begin(), costs.end(), int64_t{0}));
  return fmt::format("cut at layers {}: the costliest stage multiplies by {:.2f} times the mean's parameters", cuts,
                     static_cast<double>(most) * static_cast<double>(bounds.size() - 1) / std::max(all, 1.0));
}

std::vector<UnitSizes> sizes_of_units(const ParameterTable& table, const MeshShape& mesh) {
  const int64_t shards = mesh.ranks(kShardAxes);
  std::vector<UnitSizes> units;
  for (const ModelUnit& unit : table.units)
    units.push_back({unit.name.empty() ? "(root)" : unit.name, class_name(*unit.module)});
  for (const ModelParameter& parameter : table.parameters) {
    const int64_t elements = c10::multiply_integers(parameter.global_shape);
    const int64_t of_tp = c10::multiply_integers(local_shape(parameter, mesh[Axis::tp], /*tp_rank=*/0));
    UnitSizes& unit = units[parameter.unit];
    unit.all += elements;
    if (parameter.tensor_split) unit.split += elements;
    unit.kept += (of_tp + shards - 1) / shards;
  }
  return units;
}

std::string name_for(const RankPlan& rank, const RunPlan& plan) {
  if (plan.mesh[Axis::pp] == 1) return "each";
  return fmt::format("pp {} (stage{} {})", &rank - plan.ranks.data(), rank.stages.size() > 1 ? "s" : "",
                     fmt::join(rank.stages, ", "));
}

Json as_json(const HeldBytes& held) {
  Json json;
  for (size_t i = 0; i < held.size(); ++i) json[std::string(kHeldNames[i])] = held[i];
  return json;
}

Json as_json(const RunPlan& plan, const std::vector<UnitSizes>& units) {
  Json ranks = Json::array(), of_units = Json::array();
  for (const RankPlan& rank : plan.ranks) {
    Json traffic = Json::object();
    for (const auto& [axes, volume] : rank.traffic)
      traffic[axes] = {{"collectives", volume.collectives}, {"bytes", volume.bytes}};
    ranks.push_back({{"pp", &rank - plan.ranks.data()},
                     {"stages", rank.stages},
                     {"peak", rank.step.bytes},
                     {"peak_during", rank.step.during},
                     {"at_peak", as_json(rank.step.held)},
                     {"at_most", as_json(rank.step.most)},
                     {"peak_of_start", rank.start.bytes},
                     {"copy_for_checkpoints", rank.checkpoint_copy},
                     {"activations_of_micro_batch", rank.step.one_forward},
                     {"micro_batches_stored", rank.stored},
                     {"received", traffic}});
  }
  for (const UnitSizes& unit : units)
    of_units.push_back({{"unit", unit.name},
                        {"class", unit.class_name},
                        {"parameters", unit.all},
                        {"split_by_tp", unit.split},
                        {"kept_by_rank", unit.kept}});
  Json mesh;
  for (size_t axis = 0; axis < kAxisNames.size(); ++axis) mesh[std::string(kAxisNames[axis])] = plan.mesh.size[axis];
  return {{"mesh", mesh},
          {"rows", plan.batch.micro_batch},
          {"micro_batches", plan.batch.micro_batches},
          {"data_parallel_ranks", plan.batch.dp_size},
          {"ranks", ranks},
          {"units", of_units}};
}

/// A table with columns as wide as needed, the first one left-aligned.
std::string get_table(const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  for (const auto& row : rows) {
    text += " ";
    for (size_t column = 0; column < row.size(); ++column) {
      size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[column].size());
      text += column == 0 ? fmt::format(" {:<{}}", row[column], width) : fmt::format("  {:>{}}", row[column], width);
    }
    text += "\n";
  }
  return text;
}

std::string memory_table(const RunPlan& plan) {
  std::vector<std::vector<std::string>> rows = {{"rank, MiB at the peak"}};
  rows[0].insert(rows[0].end(), kHeldNames.begin(), kHeldNames.end());
  for (const char* further : {"peak", "in the", "of a micro-batch", "stored"}) rows[0].emplace_back(further);
  for (const RankPlan& rank : plan.ranks) {
    auto& row = rows.emplace_back(1, name_for(rank, plan));
    for (const int64_t bytes : rank.step.held)
      row.push_back(fmt::format("{:.1f}", mebibytes(static_cast<double>(bytes))));
    row.push_back(fmt::format("{:.1f}", mebibytes(static_cast<double>(rank.step.bytes))));
    row.push_back(rank.step.during);
    row.push_back(fmt::format("{:.1f}", mebibytes(static_cast<double>(rank.step.one_forward))));
    row.push_back(fmt::format("{}", rank.stored));
  }
  return get_table(rows);
}

std::string traffic_table(const RunPlan& plan) {
  std::vector<std::vector<std::string>> rows = {{"rank, received per step", "over", "collectives", "MiB"}};
  for (const RankPlan& rank : plan.ranks)
    for (const auto& [axes, volume] : rank.traffic)
      rows.push_back({name_for(rank, plan), axes, fmt::format("{}", volume.collectives),
                      fmt::format("{:.3f}", mebibytes(volume.bytes))});
  return rows.size() > 1 ? "\n" + get_table(rows) : "";
}

std::string units_table(const std::vector<UnitSizes>& units) {
  std::vector<std::vector<std::string>> rows = {{"unit", "class", "parameters", "split by tp", "stored by a rank"}};
  for (const UnitSizes& unit : units)
    rows.push_back(
        {unit.name, unit.class_name, std::to_string(unit.all), std::to_string(unit.split), std::to_string(unit.kept)});
  return get_table(rows);
}

void show_plan(const PlanArguments& arguments, int64_t world_size) {
  const int64_t ranks = arguments.ranks > 0 ? arguments.ranks : world_size;
  auto config = read_run_config_for(arguments);
  const bool chooses = config.train.micro_batches == 0;
  if (chooses) fit_memory(config, ranks);
  const RunPlan plan = make_run_plan(config, ranks);
  const auto& [entry, network] = std::tie(*config.network.entry, *config.network.config);
  const Model model = build_on_meta(entry, network);
  auto table = parameter_table(*model.module, *entry.plan, network, /*stages=*/{}, config.parallel.units);
  describe_uneven_splits(table, entry, network, plan.mesh[Axis::tp]);
  const auto units = sizes_of_units(table, plan.mesh);
  if (arguments.format == "json") return print_data(as_json(plan, units).dump(2) + "\n");

  const BatchShape& batch = plan.batch;
  int64_t parameters = 0;
  for (const UnitSizes& unit : units) parameters += unit.all;
  print_result("{} on {}\n", config.network.entry->architecture, plan.mesh.describe());
  print_result("  a step      {} rows: {} per micro-batch x {} micro-batches{} x {} data-parallel ranks\n",
               batch.global(), batch.micro_batch, batch.micro_batches, chooses ? " (as few as fit)" : "",
               batch.dp_size);
  print_result("  parameters  {} ({:.1f} MiB in float32)\n", parameters,
               mebibytes(4.0 * static_cast<double>(parameters)));
  if (const int64_t copy = std::ranges::max(plan.ranks, {}, &RankPlan::checkpoint_copy).checkpoint_copy; copy > 0)
    print_result("  checkpoints are written from a copy, in addition to the peak: {:.1f} MiB in host memory\n",
                 mebibytes(static_cast<double>(copy)));
  if (const int64_t pp = plan.mesh[Axis::pp]; pp > 1) {
    const PipelineOptions pipeline = config.parallel_options().pipeline;
    const auto schedule = training_schedule(pipeline, pp, batch.micro_batches);
    print_result("  pipeline    {} stages in the order of {}: ranks idle for {:.1f} % of a step\n", schedule.stages(),
                 config.parallel.schedule, 100.0 * simulate(schedule).idle_fraction);
    print_result("              {}\n", describe_cuts(pipeline, *entry.plan, model, table, pp));
  }
  if (const std::string& memory = config.parallel.memory; !memory.empty())
    print_result("  memory      {:.1f} MiB of parallel.memory = {}{}\n", mebibytes(static_cast<double>(plan.peak())),
                 memory, plan.peak() > get_bytes(memory).value() ? ": too much, training is rejected" : "");
  print_result("\n{}{}\n{}\n", memory_table(plan), traffic_table(plan), units_table(units));
  for (const Divides& rule : config.network.entry->plan->divides)
    if (rule.otherwise != Divides::uneven)
      print_result("  {} must divide model.config.{}{}\n", rule.axis, rule.field,
                   rule.otherwise == Divides::shared ? " or be a multiple of it" : "");
}

}  // namespace

ParsedCommand declare_plan(CLI::App& app) {
  const auto arguments = std::make_shared<PlanArguments>();
  add_config_options(app, *arguments);
  app.add_option("--ranks", arguments->ranks, "number of ranks; default: from the launcher's flags")
      ->check(above_zero());
  app.add_option("--format", arguments->format, "text or json")->check(CLI::IsMember({"text", "json"}));
  return LocalCommand(
      [arguments](const LaunchOptions&, int64_t world_size) { return show_plan(*arguments, world_size), 0; });
}

}  // namespace modular
