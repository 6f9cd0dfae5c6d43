#include "runtime/config/config_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <tuple>

#include "runtime/config/config_errors.h"
#include "runtime/config/config_field.h"
#include "runtime/model/tasks.h"
#include "runtime/optim/optimizer.h"

namespace modular {
namespace {

/// Whether the rows of files are the samples.
bool has_rows(const std::string& format) { return format == "examples" || format == "parquet"; }

}  // namespace

void check_together(const RunConfig& config) {
  const auto unless = [&](bool fine, std::initializer_list<const char*> keys, const std::string& sentence) {
    if (fine) return;
    for (const char* key : keys)
      if (const auto origin = config.origins.find(key); origin != config.origins.end())
        reject(origin->second, sentence);
    reject("config", sentence);
  };
  const auto& optim = config.optim;
  unless(optim.beta1 < 1.0, {"optim.beta1"}, fmt::format("optim.beta1 must be less than 1, but is {}", optim.beta1));
  unless(optim.beta2 < 1.0, {"optim.beta2"}, fmt::format("optim.beta2 must be less than 1, but is {}", optim.beta2));
  const auto one_of = [&](const char* key, const std::string& value, const std::vector<std::string_view>& known) {
    unless(std::ranges::find(known, value) != known.end(), {key},
           fmt::format("{} is \"{}\": it must be one of {}", key, value, fmt::join(known, ", ")));
  };
  std::vector<std::string_view> optimizers;
  std::ranges::transform(optimizer_kinds(), std::back_inserter(optimizers), &OptimizerKind::name);
  one_of("optim.name", optim.name, optimizers);
  one_of("optim.adjust_lr", optim.adjust_lr, {"match_rms_adamw", "original"});
  unless(optim.momentum < 1.0, {"optim.momentum"},
         fmt::format("optim.momentum must be less than 1, but is {}", optim.momentum));
  unless(optim.beta2_decay <= 0.0, {"optim.beta2_decay"},
         fmt::format("optim.beta2_decay must not be above 0, but is {}", optim.beta2_decay));
  unless(!config.train.dir.empty(), {"train.dir"}, "train.dir is empty: name the folder of the run's files");
  one_of("optim.schedule", optim.schedule, schedule_kinds());
  unless(optim.schedule != "wsd" || optim.decay_steps > 0, {"optim.schedule"},
         "optim.schedule is wsd and optim.decay_steps is 0: say in how many of the last steps the rate falls");
  one_of("model.readers", config.model.readers, {"all", "first"});
  one_of("checkpoint.form", config.checkpoint.form, {"sharded", "full"});
  one_of("router.balance", config.router.balance, {"batch", "sequence"});
  std::vector<std::string_view> sentence_loss_names = {""};
  std::ranges::transform(sentence_losses(), std::back_inserter(sentence_loss_names), &SentenceLoss::name);
  one_of("sentences.loss", config.sentences.loss, sentence_loss_names);
  one_of("sentences.distance", config.sentences.distance, {"", "cosine", "euclidean"});
  unless(config.sentences.scale > 0.0, {"sentences.scale"},
         fmt::format("sentences.scale is {}: it must be above 0", config.sentences.scale));
  one_of("sampled_softmax.distribution", config.sampled_softmax.distribution, {kLogUniform, kUniform});
  one_of("train.device", config.train.device, {"auto", "cpu", "cuda"});
  one_of("train.on_nonfinite", config.train.on_nonfinite, {"stop", "skip", "rollback"});
  unless(config.train.on_nonfinite != "rollback" || config.checkpoint.every >= 0,
         {"train.on_nonfinite", "checkpoint.every"},
         "train.on_nonfinite is rollback, and checkpoint.every is -1: there would be no checkpoint to go back to");
  const auto& [backend, device] = std::tie(config.parallel.backend, config.train.device);
  unless(config.has_backend_library() || backend == "auto" || backend == "gloo" || backend == "nccl",
         {"parallel.backend"},
         fmt::format("parallel.backend is \"{}\": it must be auto, gloo, nccl, or the path of a shared library, with a "
                     "slash in it",
                     backend));
  unless(backend != "gloo" || device != "cuda", {"parallel.backend", "train.device"},
         "parallel.backend is gloo, which moves host memory, and train.device is cuda: set it to auto or nccl");
  unless(backend != "nccl" || device != "cpu", {"parallel.backend", "train.device"},
         "parallel.backend is nccl, which moves the memory of GPUs, and train.device is cpu: set it to auto or gloo");
  for (const std::string& name : config.parallel.offload)
    unless(std::ranges::find(offload_names(), name) != offload_names().end(), {"parallel.offload"},
           fmt::format("parallel.offload has \"{}\": it may hold {}", name, fmt::join(offload_names(), ", ")));
  const Offload offload = to_offload(config.parallel.offload);
  unless(!offload.optimizer || (optim.name != "adafactor" && optim.name != "muon"), {"parallel.offload", "optim.name"},
         fmt::format("parallel.offload keeps the optimizer in host memory, and optim.name = \"{}\" exchanges what it "
                     "updates between devices: use adamw or sgd, or leave {} out",
                     optim.name, offload.parameters ? "parameters" : "optimizer"));
  unless(!offload.activations || config.parallel.recompute.every != 1, {"parallel.offload", "parallel.recompute"},
         "parallel.offload has activations, and with parallel.recompute = \"full\" units keep none but their inputs: "
         "leave one of the two out, or recompute every second unit or operations");
  const std::string& memory = config.parallel.memory;
  unless(
      memory.empty() || get_bytes(memory), {"parallel.memory"},
      fmt::format(
          "parallel.memory is \"{}\": give a number with its unit: B, KB, MB, GB, TB, KiB, MiB, GiB or TiB, e.g. 16GiB",
          memory));
  const std::string unknown = unknown_schedule(config.parallel.schedule);
  unless(unknown.empty(), {"parallel.schedule"}, unknown);
  unless(optim.min_lr <= optim.lr, {"optim.min_lr", "optim.lr"},
         fmt::format("optim.min_lr ({}) must not be above optim.lr ({})", optim.min_lr, optim.lr));
  unless(config.parallel.dp_shard != 0, {"parallel.dp_shard"}, "parallel.dp_shard must be -1 or at least 1, but is 0");
  const auto& parallel = config.parallel;
  const auto with_threads = [&](bool fine, const char* key, std::string_view why) {
    unless(parallel.dp_threads == 1 || fine, {"parallel.dp_threads", key},
           fmt::format("parallel.dp_threads = {}, {}: set it to 1, or use ranks (--nproc-per-node)",
                       parallel.dp_threads, why));
  };
  unless(parallel.float8.empty() || parallel.bf16, {"parallel.float8", "parallel.bf16"},
         "parallel.float8 multiplies what is computed in bfloat16: set parallel.bf16 = true, or leave parallel.float8 "
         "empty");
  with_threads(!parallel.bf16, "parallel.bf16", "and parallel.bf16 is true, which replicas on threads do not know");
  with_threads(!parallel.recompute, "parallel.recompute", "and replicas on threads recompute nothing");
  with_threads(!config.parallel_options().router.does_anything(), "router.aux_loss",
               "and replicas on threads do not balance experts");
  with_threads(parallel.offload.empty(), "parallel.offload", "and replicas on threads keep all on their devices");
  with_threads(!find_task(config.network.entry->task)->label_count.empty(), "model.entry",
               fmt::format("and {} compares the rows of a batch, which threads deal out", config.model.entry));
  try {
    config.eval_metrics();
  } catch (const std::invalid_argument& error) {
    unless(false, {"eval.metrics"}, fmt::format("eval.metrics: {}", error.what()));
  }
  const std::string& best = config.checkpoint.best;
  // Which metrics there are may follow from the data.
  const bool waits = find_task(config.network.entry->task)->texts == kAnyTexts && config.sentences.loss.empty();
  const std::string best_checkpoint_error = waits ? "" : checkpoint_best_error(config);
  unless(best_checkpoint_error.empty(), {"checkpoint.best"}, best_checkpoint_error);
  unless(best.empty() || config.checkpoint.every >= 0, {"checkpoint.best", "checkpoint.every"},
         fmt::format("checkpoint.best is \"{}\", and checkpoint.every is -1: no checkpoint would be written", best));
  constexpr double kLeastTemperature = 1e-6;  // logits that are divided by less overflow
  const double temperature = config.sample.temperature;
  unless(temperature == 0.0 || (temperature >= kLeastTemperature && std::isfinite(temperature)), {"sample.temperature"},
         fmt::format("sample.temperature must be 0, which always takes the likeliest token, or a finite number of at "
                     "least {}, but is {}",
                     kLeastTemperature, temperature));
  const auto& data = config.data;
  unless(std::isfinite(config.train.epochs), {"train.epochs"}, "train.epochs must be a finite number");
  unless(data.held_out_part < 1.0, {"data.held_out_part"},
         fmt::format("data.held_out_part is {}: it is a share of the samples, less than 1", data.held_out_part));
  unless(
      data.held_out_part == 0.0 || (data.held_out_every == 0 && data.held_out.empty()),
      {"data.held_out_part", data.held_out_every > 0 ? "data.held_out_every" : "data.held_out"},
      fmt::format("data.held_out_part = {} holds out the last samples of all files, and {} whole files: leave one of "
                  "the two out",
                  data.held_out_part, data.held_out_every > 0 ? "data.held_out_every" : "data.held_out"));
  unless(data.sets.empty() || data.paths.empty(), {"data.sets", "data.paths"},
         "data.sets and data.paths both name data: give data.paths as a set, or leave one of the two out");
  for (const SetOptions& set : data.sets) {
    unless(!set.paths.empty(), {"data.sets"},
           fmt::format("data.sets.{} has no paths: name files, folders or globs to train on", set.name));
    unless(std::ranges::find(sentence_loss_names, set.loss) != sentence_loss_names.end(), {"data.sets"},
           fmt::format("data.sets.{}.loss is \"{}\": it must be one of {}", set.name, set.loss,
                       fmt::join(sentence_loss_names, ", ")));
    unless(
        set.loss.empty() || find_task(config.network.entry->task)->texts == kAnyTexts, {"data.sets"},
        fmt::format("data.sets.{}.loss is \"{}\", which is one of sentence embeddings, and {} is for {}: leave it out",
                    set.name, set.loss, config.network.entry->architecture, config.network.entry->task));
    const std::string unknown = unknown_data_format(set.format.value_or(data.format));
    unless(unknown.empty(), {"data.sets"}, fmt::format("data.sets.{}: {}", set.name, unknown));
  }
  unless(data.pack || data.end_of_text < 0, {"data.end_of_text"},
         fmt::format("data.end_of_text is {}, which only data.pack reads: set data.pack = true, or leave it out",
                     data.end_of_text));
  const std::vector<std::string> formats = config.data_formats();
  for (const auto& [key, is_set] :
       {std::pair("data.trim", data.trim), std::pair("data.group_by_length", data.group_by_length)})
    unless(!is_set || has_rows(formats[0]), {key},
           fmt::format("{} is for examples, whose attention_mask says how long they are: leave it out", key));
  const auto other = std::ranges::find_if(formats, [](const auto& one) { return one != "bytes"; });
  unless(!data.pack || data.end_of_text >= 0 || other == formats.end() || has_rows(*other), {"data.pack"},
         fmt::format("data.pack keeps documents apart, and files of {} do not say where one ends: set data.end_of_text "
                     "to the id of the token that ends a document",
                     other == formats.end() ? "" : *other));
  unless(std::ranges::all_of(formats, [&](auto& one) { return has_rows(one) == has_rows(formats[0]); }), {"data.sets"},
         "data.sets has sets of examples beside others: all are examples, or none is");
  one_of("data.order", data.order, {"rows", "partitions"});
  const bool partitions = data.order == "partitions";
  unless(
      !partitions || std::ranges::all_of(formats, [](auto& one) { return one == "parquet"; }), {"data.order"},
      "data.order is \"partitions\", which are of the row groups of Parquet files: set data.format to \"parquet\", or "
      "leave it out");
  unless(
      !partitions || data.held_out_part == 0.0, {"data.order", "data.held_out_part"},
      "data.order is \"partitions\", which draw from full row groups, and data.held_out_part holds out rows: hold out "
      "files, by data.held_out or data.held_out_every");
  unless(!partitions || !data.group_by_length, {"data.order", "data.group_by_length"},
         "data.order is \"partitions\", and data.group_by_length another order: leave one of the two out");
  for (const auto& [key, is_set] :
       {std::pair("data.partitions", data.partitions > 0), std::pair("data.repartition", data.repartition)})
    unless(!is_set || partitions, {key},
           fmt::format("{} is of data.order = \"partitions\": set that, or leave it out", key));
  unless(!data.repartition || config.checkpoint.shared, {"data.repartition", "checkpoint.shared"},
         "data.repartition writes into train.dir what all ranks read, and checkpoint.shared is false: run `modrun "
         "repartition` and copy its folder to all machines");
  const std::string unknown_format = unknown_data_format(config.data.format);
  unless(unknown_format.empty(), {"data.format"}, unknown_format);
}

void check_optimizer_settings(RunConfig& config) {
  const auto reads = [](const OptimizerKind& kind, const std::string& path) {
    return std::ranges::any_of(kind.settings,
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
