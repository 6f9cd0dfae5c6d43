#include "runtime/config/config_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <tuple>

#include "runtime/config/config_field.h"
#include "runtime/model/tasks.h"
#include "runtime/optim/optimizer.h"

namespace modular {
namespace {

/// Whether the samples are rows of the files.
bool has_rows(const std::string& format) { return has_property(format, &DataFormat::has_rows); }

/// Collects the problems of a config.
class Check {
 public:
  Check(const RunConfig& config, Problems& problems) : config_(config), problems_(problems) {}

  /// Adds a problem unless `valid`. Its location is that of the first of `keys` that was set.
  void unless(bool valid, std::initializer_list<const char*> keys, const std::string& message) {
    if (valid) return;
    const auto key = std::ranges::find_if(keys, [&](const char* one) { return config_.origins.contains(one); });
    problems_.add(key == keys.end() ? "config" : config_.origins.at(*key), message);
  }

  void one_of(const char* key, const std::string& value, const std::vector<std::string_view>& known) {
    unless(std::ranges::find(known, value) != known.end(), {key},
           fmt::format("{} is \"{}\": it must be one of {}", key, value, fmt::join(known, ", ")));
  }

 private:
  const RunConfig& config_;
  Problems& problems_;
};

std::vector<std::string_view> sentence_loss_names() {
  std::vector<std::string_view> names = {""};
  std::ranges::transform(sentence_losses(), std::back_inserter(names), &SentenceLoss::name);
  return names;
}

void validate_optimizer(const RunConfig& config, Check& check) {
  const auto& optim = config.optim;
  check.unless(optim.beta1 < 1.0, {"optim.beta1"},
               fmt::format("optim.beta1 must be less than 1, but is {}", optim.beta1));
  check.unless(optim.beta2 < 1.0, {"optim.beta2"},
               fmt::format("optim.beta2 must be less than 1, but is {}", optim.beta2));
  std::vector<std::string_view> optimizers;
  std::ranges::transform(optimizer_kinds(), std::back_inserter(optimizers), &OptimizerKind::name);
  check.one_of("optim.name", optim.name, optimizers);
  check.one_of("optim.adjust_lr", optim.adjust_lr, {"match_rms_adamw", "original"});
  check.unless(optim.momentum < 1.0, {"optim.momentum"},
               fmt::format("optim.momentum must be less than 1, but is {}", optim.momentum));
  check.unless(optim.beta2_decay <= 0.0, {"optim.beta2_decay"},
               fmt::format("optim.beta2_decay must not be above 0, but is {}", optim.beta2_decay));
  check.one_of("optim.schedule", optim.schedule, schedule_kinds());
  check.unless(
      optim.schedule != "wsd" || optim.decay_steps > 0, {"optim.schedule"},
      "optim.schedule is wsd and optim.decay_steps is 0: set it to the number of final steps in which the rate decays");
  check.unless(optim.min_lr <= optim.lr, {"optim.min_lr", "optim.lr"},
               fmt::format("optim.min_lr ({}) must not be above optim.lr ({})", optim.min_lr, optim.lr));
}

void validate_run(const RunConfig& config, Check& check) {
  check.unless(!config.train.dir.empty(), {"train.dir"}, "train.dir is empty: name the folder of the run's files");
  check.one_of("train.device", config.train.device, {"auto", "cpu", "cuda"});
  check.one_of("train.on_nonfinite", config.train.on_nonfinite, {"stop", "skip", "rollback"});
  check.unless(
      config.train.on_nonfinite != "rollback" || config.checkpoint.every >= 0,
      {"train.on_nonfinite", "checkpoint.every"},
      "train.on_nonfinite is rollback, and checkpoint.every is -1: there would be no checkpoint to roll back to");
  check.unless(std::isfinite(config.train.epochs), {"train.epochs"}, "train.epochs must be a finite number");
  check.one_of("model.readers", config.model.readers, {"all", "first"});
  check.one_of("checkpoint.form", config.checkpoint.form, {"sharded", "full"});
}

void validate_objectives(const RunConfig& config, Check& check) {
  check.one_of("router.balance", config.router.balance, {"batch", "sequence"});
  check.one_of("sentences.loss", config.sentences.loss, sentence_loss_names());
  check.one_of("sentences.distance", config.sentences.distance, {"", "cosine", "euclidean"});
  check.unless(config.sentences.scale > 0.0, {"sentences.scale"},
               fmt::format("sentences.scale is {}: it must be above 0", config.sentences.scale));
  check.one_of("sampled_softmax.distribution", config.sampled_softmax.distribution, {kLogUniform, kUniform});
}

void validate_backend(const RunConfig& config, Check& check) {
  const auto& [backend, device] = std::tie(config.parallel.backend, config.train.device);
  check.unless(
      config.parallel.has_backend_library() || backend == "auto" || backend == "gloo" || backend == "nccl",
      {"parallel.backend"},
      fmt::format("parallel.backend is \"{}\": it must be auto, gloo, nccl, or the path of a shared library, with a "
                  "slash in it",
                  backend));
  check.unless(
      backend != "gloo" || device != "cuda", {"parallel.backend", "train.device"},
      "parallel.backend is gloo, which moves only host memory, but train.device is cuda: set parallel.backend to auto "
      "or nccl");
  check.unless(
      backend != "nccl" || device != "cpu", {"parallel.backend", "train.device"},
      "parallel.backend is nccl, which moves only GPU memory, but train.device is cpu: set parallel.backend to auto or "
      "gloo");
}

void validate_memory(const RunConfig& config, Check& check) {
  const auto& optim = config.optim;
  for (const std::string& name : config.parallel.offload)
    check.unless(std::ranges::find(offload_names(), name) != offload_names().end(), {"parallel.offload"},
                 fmt::format("parallel.offload has \"{}\": it may hold {}", name, fmt::join(offload_names(), ", ")));
  const Offload offload = to_offload(config.parallel.offload);
  const auto kind = std::ranges::find(optimizer_kinds(), optim.name, &OptimizerKind::name);
  check.unless(
      !offload.optimizer || kind == optimizer_kinds().end() || !kind->communicates(),
      {"parallel.offload", "optim.name"},
      fmt::format("parallel.offload keeps the optimizer in host memory, and optim.name = \"{}\" communicates its "
                  "updates between devices: use adamw or sgd, or leave {} out",
                  optim.name, offload.parameters ? "parameters" : "optimizer"));
  check.unless(
      !offload.activations || config.parallel.recompute.every != 1, {"parallel.offload", "parallel.recompute"},
      "parallel.offload has activations, and with parallel.recompute = \"full\" units keep only their inputs: leave "
      "one of the two out, or recompute every second unit or operations");
  const std::string& memory = config.parallel.memory;
  check.unless(
      memory.empty() || get_bytes(memory), {"parallel.memory"},
      fmt::format(
          "parallel.memory is \"{}\": give a number with its unit: B, KB, MB, GB, TB, KiB, MiB, GiB or TiB, e.g. 16GiB",
          memory));
}

void validate_parallelism(const RunConfig& config, Check& check) {
  check.one_of("parallel.cp_layout", config.parallel.cp_layout, {"auto", "contiguous", "zigzag", "balanced"});
  check.one_of("parallel.cp_attention", config.parallel.cp_attention, {"auto", "all-gather", "all-to-all"});
  const std::string unknown = unknown_schedule(config.parallel.schedule);
  check.unless(unknown.empty(), {"parallel.schedule"}, unknown);
  check.unless(config.parallel.dp_shard != 0, {"parallel.dp_shard"},
               "parallel.dp_shard must be -1 or at least 1, but is 0");
  const auto& parallel = config.parallel;
  const auto with_threads = [&](bool fine, const char* key, std::string_view why) {
    check.unless(
        parallel.dp_threads == 1 || fine, {"parallel.dp_threads", key},
        fmt::format("parallel.dp_threads = {}, {}: set parallel.dp_threads to 1, or use ranks (--nproc-per-node)",
                    parallel.dp_threads, why));
  };
  check.unless(parallel.float8.empty() || parallel.bf16, {"parallel.float8", "parallel.bf16"},
               "parallel.float8 needs bfloat16 compute: set parallel.bf16 = true, or leave parallel.float8 empty");
  with_threads(!parallel.bf16, "parallel.bf16", "and parallel.bf16 is true, which replicas on threads do not support");
  with_threads(!parallel.recompute, "parallel.recompute", "and replicas on threads do not recompute");
  with_threads(!config.parallel_options().router.does_anything(), "router.aux_loss",
               "and replicas on threads do not balance experts");
  with_threads(parallel.offload.empty(), "parallel.offload", "and replicas on threads do not offload");
  with_threads(!find_task(config.network.entry->task)->label_count.empty(), "model.entry",
               fmt::format("and {} compares the rows of a batch, which threads split", config.model.entry));
}

void validate_evaluation(const RunConfig& config, Check& check) {
  try {
    config.eval_metrics();
  } catch (const std::invalid_argument& error) {
    check.unless(false, {"eval.metrics"}, fmt::format("eval.metrics: {}", error.what()));
  }
  const std::string& best = config.checkpoint.best;
  // The set of metrics may depend on the data.
  const bool waits = find_task(config.network.entry->task)->texts == kAnyTexts && config.sentences.loss.empty();
  const std::string best_checkpoint_error = waits ? "" : checkpoint_best_error(config);
  check.unless(best_checkpoint_error.empty(), {"checkpoint.best"}, best_checkpoint_error);
  check.unless(
      best.empty() || config.checkpoint.every >= 0, {"checkpoint.best", "checkpoint.every"},
      fmt::format("checkpoint.best is \"{}\", and checkpoint.every is -1: no checkpoint would be written", best));
}

void validate_generation(const RunConfig& config, Check& check) {
  constexpr double kLeastTemperature = 1e-6;  // logits divided by less overflow
  const double temperature = config.sample.temperature;
  check.unless(
      temperature == 0.0 || (temperature >= kLeastTemperature && std::isfinite(temperature)), {"sample.temperature"},
      fmt::format("sample.temperature must be 0, which always takes the likeliest token, or a finite number of at "
                  "least {}, but is {}",
                  kLeastTemperature, temperature));
}

void validate_validation_data(const RunConfig& config, Check& check) {
  const auto& data = config.data;
  check.unless(data.validation_fraction < 1.0, {"data.validation_fraction"},
               fmt::format("data.validation_fraction is {}: it is a fraction of the samples, less than 1",
                           data.validation_fraction));
  check.unless(
      data.validation_fraction == 0.0 || (data.validation_every == 0 && data.validation.empty()),
      {"data.validation_fraction", data.validation_every > 0 ? "data.validation_every" : "data.validation"},
      fmt::format("data.validation_fraction = {} takes the last samples of all files, and {} selects files: leave one "
                  "of the two out",
                  data.validation_fraction, data.validation_every > 0 ? "data.validation_every" : "data.validation"));
}

void validate_data_sets(const RunConfig& config, Check& check) {
  const auto& data = config.data;
  const std::vector<std::string_view> names = sentence_loss_names();
  check.unless(data.sets.empty() || data.paths.empty(), {"data.sets", "data.paths"},
               "data.sets and data.paths both name data: give data.paths as a set, or leave one of the two out");
  for (const SetOptions& set : data.sets) {
    check.unless(!set.paths.empty(), {"data.sets"},
                 fmt::format("data.sets.{} has no paths: name files, folders or globs to train on", set.name));
    check.unless(
        std::ranges::find(names, set.loss) != names.end(), {"data.sets"},
        fmt::format("data.sets.{}.loss is \"{}\": it must be one of {}", set.name, set.loss, fmt::join(names, ", ")));
    check.unless(
        set.loss.empty() || find_task(config.network.entry->task)->texts == kAnyTexts, {"data.sets"},
        fmt::format(
            "data.sets.{}.loss is \"{}\", which is a loss for sentence embeddings, and {} is for {}: leave it out",
            set.name, set.loss, config.network.entry->architecture, config.network.entry->task));
    const std::string unknown = unknown_data_format(set.format.value_or(data.format));
    check.unless(unknown.empty(), {"data.sets"}, fmt::format("data.sets.{}: {}", set.name, unknown));
  }
  const std::vector<std::string> formats = config.data_formats();
  check.unless(std::ranges::all_of(formats, [&](auto& one) { return has_rows(one) == has_rows(formats[0]); }),
               {"data.sets"},
               "data.sets mixes sets of examples with other formats: use examples in all sets or in none");
}

void validate_rows(const RunConfig& config, Check& check) {
  const auto& data = config.data;
  const std::vector<std::string> formats = config.data_formats();
  check.unless(data.pack || data.end_of_text < 0, {"data.end_of_text"},
               fmt::format("data.end_of_text is {}, which only data.pack reads: set data.pack = true, or leave it out",
                           data.end_of_text));
  for (const auto& [key, is_set] :
       {std::pair("data.trim", data.trim), std::pair("data.group_by_length", data.group_by_length)})
    check.unless(!is_set || has_rows(formats[0]), {key},
                 fmt::format("{} applies only to examples, whose length is given by attention_mask: remove it", key));
  const auto other =
      std::ranges::find_if(formats, [](const auto& one) { return !has_property(one, &DataFormat::ids_are_bytes); });
  check.unless(
      !data.pack || data.end_of_text >= 0 || other == formats.end() || has_rows(*other), {"data.pack"},
      fmt::format("data.pack separates documents, and files of {} do not mark where one ends: set data.end_of_text "
                  "to the id of the token that ends a document",
                  other == formats.end() ? "" : *other));
  const std::string unknown_format = unknown_data_format(data.format);
  check.unless(unknown_format.empty(), {"data.format"}, unknown_format);
}

void validate_partitions(const RunConfig& config, Check& check) {
  const auto& data = config.data;
  const std::vector<std::string> formats = config.data_formats();
  check.one_of("data.order", data.order, {"rows", "partitions"});
  const bool partitions = data.order == "partitions";
  check.unless(
      !partitions ||
          std::ranges::all_of(formats, [](auto& one) { return has_property(one, &DataFormat::has_row_groups); }),
      {"data.order"},
      "data.order = \"partitions\" reads row groups of Parquet files: set data.format to \"parquet\", or data.order to "
      "\"rows\"");
  check.unless(
      !partitions || data.validation_fraction == 0.0, {"data.order", "data.validation_fraction"},
      "data.order is \"partitions\", which consist of full row groups, and data.validation_fraction splits off "
      "rows: select validation files with data.validation or data.validation_every");
  check.unless(!partitions || !data.group_by_length, {"data.order", "data.group_by_length"},
               "data.order is \"partitions\", and data.group_by_length sets another order: leave one of the two out");
  for (const auto& [key, is_set] :
       {std::pair("data.partitions", data.partitions > 0), std::pair("data.repartition", data.repartition)})
    check.unless(!is_set || partitions, {key},
                 fmt::format("{} needs data.order = \"partitions\": set that, or leave it out", key));
  check.unless(!data.repartition || config.checkpoint.shared, {"data.repartition", "checkpoint.shared"},
               "data.repartition writes files into train.dir that all ranks read, and checkpoint.shared is false: run "
               "`modrun repartition` and copy its folder to all machines");
}

/// In the order in which their problems are reported.
constexpr std::array kValidators = {
    validate_optimizer, validate_run,         validate_objectives,      validate_backend,
    validate_memory,    validate_parallelism, validate_evaluation,      validate_generation,
    validate_data_sets, validate_rows,        validate_validation_data, validate_partitions};

}  // namespace

void validate(const RunConfig& config, Problems& problems) {
  Check check(config, problems);
  // What a validator computes may be undefined for values that an earlier check rejected: such an error adds nothing.
  for (const auto& validator : kValidators) {
    try {
      validator(config, check);
    } catch (const std::exception&) {
      if (problems.empty()) throw;
    }
  }
}

void check_optimizer_options(RunConfig& config) {
  const auto reads = [](const OptimizerKind& kind, const std::string& path) {
    return std::ranges::any_of(kind.options,
                               [&](std::string_view name) { return path == fmt::format("optim.{}", name); });
  };
  for (const ConfigField& field : section_fields(config)) {
    std::vector<std::string_view> readers;
    for (const OptimizerKind& kind : optimizer_kinds())
      if (reads(kind, field.path)) readers.push_back(kind.name);
    const auto origin = config.origins.find(field.path);
    if (readers.empty() || origin == config.origins.end() || !origin->second.starts_with("--set") ||
        std::ranges::find(readers, config.optim.name) != readers.end())
      continue;
    reject(origin->second,
           fmt::format("{} is {}, which optim.name = \"{}\" does not read: leave it out, or set optim.name to {}",
                       field.path, toml_value(field.value), config.optim.name, fmt::join(readers, " or ")));
  }
}

}  // namespace modular
