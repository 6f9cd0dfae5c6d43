#include "runtime/config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>

#include "runtime/config/config_field.h"
#include "runtime/data/model_inputs.h"
#include "runtime/model/tasks.h"

namespace modular {

namespace {

std::vector<ConfigField> all_fields(RunConfig& config) {
  auto fields = section_fields(config);
  if (!config.network.config) return fields;
  const auto of_model = model_fields(*config.network.config);
  const auto after = std::ranges::find_if(fields, [](const auto& field) { return !field.path.starts_with("model."); });
  fields.insert(after, of_model.begin(), of_model.end());
  return fields;
}

/// Product of positive integers, saturating at the largest int64_t.
int64_t product(std::initializer_list<int64_t> factors) {
  int64_t result = 1;
  for (const int64_t factor : factors)
    if (__builtin_mul_overflow(result, factor, &result)) return std::numeric_limits<int64_t>::max();
  return result;
}

}  // namespace

std::vector<Metric> RunConfig::eval_metrics() const {
  const std::string_view task = network.entry->task;
  std::set<std::string> problems = {find_problem(network)};
  if (find_task(task)->texts == kAnyTexts) {
    problems = {sentences.loss};
    if (!data.sets.empty()) problems.clear();
    for (const SetOptions& set : data.sets) problems.insert(set.loss.empty() ? sentences.loss : set.loss);
  }
  // Metrics that are defined for every set.
  std::vector<std::string> names = eval.metrics;
  if (names.empty()) names = usual_metrics(task, *problems.begin());
  std::vector<Metric> metrics;
  for (const std::string& name : names) {
    const auto is_usual = [&](const std::string& problem) {
      const std::vector<std::string> usual = usual_metrics(task, problem);
      return !eval.metrics.empty() || std::ranges::find(usual, name) != usual.end();
    };
    if (!std::ranges::all_of(problems, is_usual)) continue;
    for (const std::string& problem : problems) find_metric(name, task, problem);
    metrics.push_back(find_metric(name, task, *problems.begin()));
  }
  return metrics;
}

std::vector<std::string> RunConfig::data_formats() const {
  if (data.sets.empty()) return {data.format};
  std::vector<std::string> formats;
  for (const SetOptions& set : data.sets) formats.push_back(set.format.value_or(data.format));
  return formats;
}

bool RunConfig::reads(bool DataFormat::* property) const {
  return std::ranges::any_of(data_formats(), [&](const std::string& one) { return has_property(one, property); });
}

Schedule RunConfig::schedule() const {
  return {.kind = optim.schedule,
          .lr = optim.lr,
          .min_lr = optim.min_lr,
          .warmup_steps = optim.warmup_steps,
          .decay_steps = optim.decay_steps,
          .steps = train.steps};
}

int64_t TrainSection::samples_of_epochs(int64_t samples) const {
  const double count = std::ceil(epochs * static_cast<double>(samples));
  if (!(count < 0x1p53))
    throw ConfigError(
        fmt::format("train.epochs = {} of {} samples overflow the sample count: lower it", epochs, samples));
  return static_cast<int64_t>(count);
}

MeshOptions RunConfig::mesh_options() const {
  MeshOptions options;
  const std::string device = train.device != "auto"       ? train.device
                             : parallel.backend == "gloo" ? "cpu"
                             : parallel.backend == "nccl" ? "cuda"
                                                          : "";
  if (!device.empty()) options.device = at::Device(device);
  if (const auto found = untrusted.find("parallel.backend"); found != untrusted.end()) throw ConfigError(found->second);
  try {
    if (parallel.has_backend_library()) options.make_backend = load_backend(parallel.backend);
  } catch (const std::runtime_error& error) {
    throw ConfigError(fmt::format("parallel.backend: {}", error.what()));
  }
  options.collective_timeout = std::chrono::minutes(parallel.timeout_minutes);
  options.frozen_after = std::chrono::seconds(parallel.frozen_seconds);
  return options;
}

ParallelOptions RunConfig::parallel_options() const {
  ParallelOptions options;
  options.zero_stage = parallel.zero_stage;
  options.prefetch = parallel.prefetch;
  options.dp_threads = parallel.dp_threads;
  options.recompute = parallel.recompute;
  options.offload = to_offload(parallel.offload);
  options.units = parallel.units;
  options.bf16 = parallel.bf16;
  options.sequence = parallel.sequence;
  options.context = {.layout = to_context_layout(parallel.cp_layout),
                     .attention = to_context_attention(parallel.cp_attention)};
  options.float8 = parallel.float8;
  options.frozen = optim.frozen;
  if (network.lora) options.trained = lora.trained;
  options.pipeline = {parallel.schedule, parallel.stages_per_rank, parallel.cuts};
  options.router = {.aux_loss = router.aux_loss ? *router.aux_loss : configured_aux_loss(network),
                    .by_sequence = router.balance == "sequence",
                    .z_loss = router.z_loss,
                    .bias_speed = router.bias_speed};
  options.sentences = sentences;
  options.sampled_softmax = sampled_softmax;
  return options;
}

std::string checkpoint_best_error(const RunConfig& config) {
  const std::string& best = config.checkpoint.best;
  std::vector<std::string> judges = {"loss"};
  for (const Metric& metric : config.eval_metrics())
    if (config.data.sets.size() < 2 || has_value_over_all_sets(metric, config.network)) judges.push_back(metric.name);
  if (best.empty() || std::ranges::find(judges, best) != judges.end()) return {};
  return fmt::format("checkpoint.best is \"{}\": it must be one of {}, or among eval.metrics", best,
                     fmt::join(judges, ", "));
}

double configured_aux_loss(const ModelConfig& network) {
  bool wanted = false;
  double coefficient = 0.0;
  for (const ConfigField& field : model_fields(*network.config)) {
    const auto* const* flag = std::get_if<bool*>(&field.value);
    const auto* const* number = std::get_if<double*>(&field.value);
    if (flag && field.path == "model.config.output_router_logits") wanted = **flag;
    if (number && field.path == "model.config.router_aux_loss_coef") coefficient = **number;
  }
  return wanted && network.entry->task == "causal-lm" ? coefficient : 0.0;
}

MeshShape ParallelSection::mesh_shape(int64_t world_size) const {
  if (dp_threads > 1 && world_size > 1)
    throw ConfigError(
        fmt::format("parallel.dp_threads = {} puts replicas on threads of one process, and the job has "
                    "{} ranks: set it to 1, or start without --nproc-per-node",
                    dp_threads, world_size));
  MeshShape shape;
  shape[Axis::pp] = pp;
  shape[Axis::dp_replicate] = dp_replicate;
  shape[Axis::cp] = cp;
  shape[Axis::tp] = tp;
  const int64_t others = product({pp, dp_replicate, cp, tp});
  const auto axes = fmt::format("parallel.pp = {}, dp_replicate = {}, {}tp = {}", pp, dp_replicate,
                                cp == 1 ? "" : fmt::format("cp = {}, ", cp), tp);
  if (dp_shard != -1) {
    shape[Axis::dp_shard] = dp_shard;
    const int64_t ranks = product({others, dp_shard});
    if (ranks != world_size)
      throw ConfigError(
          fmt::format("{}, dp_shard = {} make {} ranks, but the job has {}: change an axis or --nproc-per-node", axes,
                      dp_shard, ranks, world_size));
  } else {
    if (world_size % others != 0)
      throw ConfigError(
          fmt::format("{} need a multiple of {} ranks, but the job has {}: change an axis or --nproc-per-node", axes,
                      others, world_size));
    shape[Axis::dp_shard] = world_size / others;
  }
  return shape;
}

std::optional<int64_t> get_bytes(const std::string& text) {
  static constexpr std::array<std::pair<std::string_view, double>, 9> kUnits = {{{"B", 1},
                                                                                 {"KB", 1e3},
                                                                                 {"MB", 1e6},
                                                                                 {"GB", 1e9},
                                                                                 {"TB", 1e12},
                                                                                 {"KiB", 0x1p10},
                                                                                 {"MiB", 0x1p20},
                                                                                 {"GiB", 0x1p30},
                                                                                 {"TiB", 0x1p40}}};
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  const auto known = std::ranges::find(kUnits, unit, &std::pair<std::string_view, double>::first);
  if (error != std::errc() || known == kUnits.end() || !(number > 0.0 && number * known->second < 0x1p62)) return {};
  return static_cast<int64_t>(number * known->second);
}

BatchShape RunConfig::batch_shape(const MeshShape& mesh, int64_t dp_rank) const {
  if (train.micro_batches == 0)
    throw ConfigError("train.micro_batches is 0, which only training resolves, from parallel.memory: set it");
  const int64_t dp_size = mesh.ranks(kRowAxes);
  const int64_t parts = product({dp_size, train.micro_batches});
  if (train.batch_size_per_rank > 0) {
    const int64_t all = product({train.batch_size_per_rank, dp_size});
    // Both may come from a file: a run's config.toml holds all keys.
    const auto asked = origins.find("train.batch_size"), also = origins.find("train.batch_size_per_rank");
    const bool both = asked != origins.end() && also != origins.end() && asked->second.starts_with("--set") &&
                      also->second.starts_with("--set");
    if (both && train.batch_size != all)
      throw ConfigError(
          fmt::format("train.batch_size = {}, but train.batch_size_per_rank = {} on {} data-parallel ranks make {}: "
                      "give only one of them; train.batch_size_per_rank=0 is not given",
                      train.batch_size, train.batch_size_per_rank, dp_size, all));
    if (train.batch_size_per_rank % train.micro_batches != 0)
      throw ConfigError(
          fmt::format("train.batch_size_per_rank = {} does not divide into {} micro-batches: make it a "
                      "multiple of them",
                      train.batch_size_per_rank, train.micro_batches));
    return {train.batch_size_per_rank / train.micro_batches, train.micro_batches, dp_rank, dp_size};
  }
  if (train.batch_size % parts != 0)
    throw ConfigError(
        fmt::format("train.batch_size = {} does not divide into {} data-parallel ranks x {} micro-batches: "
                    "make it a multiple of {}",
                    train.batch_size, dp_size, train.micro_batches, parts));
  return {train.batch_size / parts, train.micro_batches, dp_rank, dp_size};
}

std::vector<std::string> program_options(RunConfig& config) {
  RunConfig defaults;
  const auto usual = section_fields(defaults);
  const auto fields = section_fields(config);
  std::vector<std::string> overrides;
  for (size_t i = 0; i < fields.size(); ++i)
    if (const std::string value = toml_value(fields[i].value);
        names_program(fields[i]) && value != toml_value(usual[i].value))
      overrides.push_back(fields[i].path + "=" + value);
  return overrides;
}

std::string format_toml(RunConfig& config) {
  std::vector<std::pair<std::string, std::string>> sections;  // name and lines; TOML allows each header once
  for (const auto& field : all_fields(config)) {
    const auto value = toml_value(field.value);
    if (value.empty()) continue;
    if (field.path == "train.steps" && config.train.epochs > 0.0)
      continue;  // implied by train.epochs, and setting both is an error
    const auto dot = field.path.rfind('.');
    const auto name = field.path.substr(0, dot);
    auto section = std::ranges::find(sections, name, &std::pair<std::string, std::string>::first);
    if (section == sections.end()) section = sections.insert(section, {name, ""});
    section->second += fmt::format("{} = {}\n", field.path.substr(dot + 1), value);
  }
  std::string text;
  for (const auto& [name, lines] : sections) text += fmt::format("{}[{}]\n{}", text.empty() ? "" : "\n", name, lines);
  return text;
}

std::string format_table(RunConfig& config) {
  std::string text;
  for (const auto& field : all_fields(config)) {
    const auto value = toml_value(field.value);
    if (value.empty()) continue;
    const auto origin = config.origins.find(field.path);
    if (origin == config.origins.end()) {
      text += fmt::format("  {:<44} {}\n", field.path, value);
    } else {
      text += fmt::format("  {:<44} {:<24} {}\n", field.path, value, origin->second);
    }
  }
  return text;
}

std::string format_reference(RunConfig& config) {
  std::string text;
  for (const auto& field : all_fields(config))
    text += fmt::format("  {:<34} {:<16} {}\n", field.path, toml_value(field.value), field.help);
  return text;
}

}  // namespace modular
