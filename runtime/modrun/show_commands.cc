#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/meta_construction.h"
#include "runtime/parallel/parameter_table.h"
#include "runtime/parallel/schedule_play.h"
#include "runtime/parallel/uneven_splits.h"
#include "runtime/train/device_usage.h"

namespace modular {

namespace {

int64_t elements(const ModelParameter& parameter) {
  return std::accumulate(parameter.global_shape.begin(), parameter.global_shape.end(), int64_t{1}, std::multiplies<>());
}

/// What one rank keeps of a parameter between steps, in elements, for the largest of the ranks that hold it.
int64_t kept(const ModelParameter& parameter, const MeshShape& mesh) {
  const int64_t of_tp = c10::multiply_integers(local_shape(parameter, mesh[Axis::tp], /*tp_rank=*/0));
  return (of_tp + mesh[Axis::dp_shard] - 1) / mesh[Axis::dp_shard];
}

std::string mebibytes(int64_t floats) { return fmt::format("{:.1f} MiB", static_cast<double>(floats) * 4 / (1 << 20)); }

}  // namespace

void show_plan(const Arguments& arguments, int64_t world_size) {
  auto config = read_config_of(arguments);
  const auto& network = config.network;
  const auto mesh = config.mesh_shape(arguments.ranks > 0 ? arguments.ranks : world_size);
  const auto pipeline = config.parallel_options().pipeline;
  if (const auto [key, sentence] = pipeline_refusal(pipeline, mesh[Axis::pp], config.train.micro_batches);
      !sentence.empty())
    throw ConfigError(sentence);
  const auto refusal = ParallelModel::refusal(*network.entry, *network.config, mesh, pipeline);
  if (!refusal.empty()) throw ConfigError(refusal);
  const auto batch = config.batch_shape(mesh, 0);
  const auto model = build_on_meta(*network.entry, *network.config);
  auto table =
      parameter_table(*model.module, *network.entry->plan, *network.config, /*stages=*/{}, config.parallel.units);
  describe_uneven_splits(table, *network.entry, *network.config, mesh[Axis::tp]);
  freeze(table.parameters, config.optim.frozen);

  int64_t all = 0, per_rank = 0, of_gradients = 0, of_optimizer = 0;
  for (const auto& parameter : table.parameters) {
    const int64_t own = kept(parameter, mesh);
    all += elements(parameter);
    per_rank += own;
    if (!parameter.trainable) continue;
    of_gradients += own;
    of_optimizer += state_elements(config.optim, parameter.global_shape, parameter.layer_matrix, own);
  }
  fmt::print("{} on {}\n", network.entry->architecture, mesh.describe());
  fmt::print("  a step        {} samples x {} tokens; a rank runs {} micro-batches of {} samples\n", batch.global(),
             config.train.seq_len, batch.micro_batches, batch.micro_batch);
  fmt::print("  parameters    {} ({} in float32)\n", all, mebibytes(all));
  if (mesh[Axis::pp] > 1) {
    const auto schedule = training_schedule(pipeline, mesh[Axis::pp], batch.micro_batches);
    const auto played = play(schedule);
    fmt::print(
        "  pipeline      {} stages in the order of {}: a rank waits for {:.1f} % of a step, and stores {} "
        "micro-batches of a stage at most\n",
        schedule.stages(), pipeline.schedule, 100.0 * played.idle_share, std::ranges::max(played.most_stored));
  }
  if (mesh[Axis::pp] == 1)
    fmt::print("  a rank keeps  {} of parameters, {} of gradients, {} of {}'s state\n", mebibytes(per_rank),
               mebibytes(of_gradients), mebibytes(of_optimizer), config.optim.name);
  if (mesh[Axis::pp] == 1 && config.checkpoint.background && config.checkpoint.every >= 0)
    fmt::print("  checkpoints   are written from a copy of {} in host memory\n", mebibytes(per_rank + of_optimizer));

  fmt::print("\n  {:<36} {:>12} {:>12} {:>14}\n", "unit", "parameters", "split by tp", "kept by a rank");
  for (size_t unit = 0; unit < table.units.size(); ++unit) {
    int64_t whole = 0, split = 0, rank = 0;
    for (const auto& parameter : table.parameters) {
      if (parameter.unit != unit) continue;
      whole += elements(parameter);
      if (parameter.tensor_split) split += elements(parameter);
      rank += kept(parameter, mesh);
    }
    const auto& name = table.units[unit].name;
    fmt::print("  {:<36} {:>12} {:>12} {:>14}\n", name.empty() ? "(root)" : name, whole, split, rank);
  }
  fmt::print("\n");
  for (const auto& [field, axis] : network.entry->plan->divides)
    if (!may_be_uneven(field))
      fmt::print("  {} must divide model.config.{}{}\n", axis, field,
                 may_be_shared(field) ? " or be a multiple of it" : "");
}

void show_entries(const Arguments& arguments) {
  auto list = entries();
  std::ranges::sort(list, {}, &Entry::architecture);
  auto json = nlohmann::ordered_json::array();
  for (const auto& entry : list) {
    if (arguments.json)
      json.push_back({{"architecture", entry.architecture},
                      {"family", entry.family},
                      {"task", entry.task},
                      {"model_type", entry.model_type}});
    else
      fmt::print("{:<32} {:<16} {}\n", entry.architecture, entry.family, entry.task);
  }
  if (arguments.json) fmt::print("{}\n", json.dump(2));
}

void show_settings(const Arguments& arguments) {
  const bool has_model = !arguments.config.empty() || !arguments.settings.empty();
  auto config = has_model ? read_config_of(arguments) : RunConfig{};
  fmt::print("{}", format_reference(config));
  if (!has_model)
    fmt::print(
        "  model.config.*                     the model's own: see them with `modrun settings --set "
        "model.entry=llama`\n");
}

}  // namespace modular
