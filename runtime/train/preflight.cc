#include "runtime/train/preflight.h"

#include <fmt/format.h>

#include <limits>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/model/tasks.h"
#include "runtime/train/config_field.h"

namespace modular {

namespace fs = std::filesystem;

namespace {

void refuse_if(const std::string& refusal) {
  if (!refusal.empty()) throw ConfigError(refusal);
}

/// A whole number of the model's own config, where it has one of that name.
std::optional<int64_t> model_count(const ModelConfig& model, std::string_view name) {
  for (const auto& field : model_fields(*model.config))
    if (const auto* const* value = std::get_if<int64_t*>(&field.value);
        value && field.path == fmt::format("model.config.{}", name))
      return **value;
  return {};
}

[[noreturn]] void refuse_setting(const RunConfig& config, const std::string& key, const std::string& sentence) {
  const auto origin = config.origins.find(key);
  throw ConfigError(origin == config.origins.end() ? sentence : origin->second + ": " + sentence);
}

/// Training leaves nothing out by chance yet, and must not claim to.
void check_dropout(const RunConfig& config) {
  for (const auto& field : model_fields(*config.network.config)) {
    if (field.path.find("dropout") == std::string::npos && !field.path.ends_with("pdrop")) continue;
    const auto* const* always = std::get_if<double*>(&field.value);
    const auto* const* optional = std::get_if<std::optional<double>*>(&field.value);
    const double value = always ? **always : optional ? (*optional)->value_or(0.0) : 0.0;
    if (value > 0.0)
      refuse_setting(config, field.path,
                     fmt::format("{} is {}, and dropout is not supported in training: set it to 0", field.path, value));
  }
}

fs::path checkpoint_to_resume(const RunConfig& config) {
  const auto checkpoint = find_checkpoint(config.checkpoints());
  if (checkpoint.empty())
    throw ConfigError(
        fmt::format("--resume: {} holds no checkpoint: start without --resume, or set train.dir to the run's folder",
                    config.checkpoints().string()));
  refuse_if(checkpoint_refusal(checkpoint, config.network));
  return checkpoint;
}

}  // namespace

void check_weights(const fs::path& folder, const ModelConfig& model) {
  const auto checkpoint = find_checkpoint(folder);
  refuse_if(checkpoint.empty() ? pretrained_refusal(folder, model) : checkpoint_refusal(checkpoint, model));
}

int64_t vocab_size(const ModelConfig& model) {
  return model_count(model, "vocab_size").value_or(std::numeric_limits<int64_t>::max());
}

void check_reading(const RunConfig& config) {
  const auto refuse = [&](const char* key, const std::string& sentence) { refuse_setting(config, key, sentence); };
  const auto vocabulary = vocab_size(config.network);
  if (config.data.format == "bytes" && vocabulary < 256)
    refuse("model.config.vocab_size",
           fmt::format("model.config.vocab_size must be at least 256 to read bytes, but is {}", vocabulary));
  const auto positions = model_count(config.network, "max_position_embeddings");
  if (positions && config.train.seq_len > *positions)
    refuse("train.seq_len", fmt::format("train.seq_len ({}) must not exceed model.config.max_position_embeddings ({})",
                                        config.train.seq_len, *positions));
}

void check_targets(const RunConfig& config) {
  const Entry& entry = *config.network.entry;
  refuse_if(task_refusal(entry.architecture, entry.task));
  const Task& task = *find_task(entry.task);
  if (task.tokens == Task::Tokens::no_targets)
    throw ConfigError(
        fmt::format("{} is for {}, which needs labelled examples, and files of {} have no labels: "
                    "`modrun forward` takes a batch with labels",
                    entry.architecture, entry.task, config.data.format));
  const auto vocabulary = vocab_size(config.network);
  const int64_t least = config.data.format == "bytes" ? 256 : 0;
  if (const auto masking = config.masking(); masking && (masking->token < least || masking->token >= vocabulary))
    refuse_setting(config, "data.mask_token",
                   fmt::format("data.mask_token is {}: set it to the id that stands for a masked token, from {} to {} "
                               "(model.config.vocab_size less 1){}",
                               masking->token, least, vocabulary - 1, least > 0 ? "; ids below are bytes" : ""));
}

void check_sampling(const RunConfig& config) {
  if (config.network.entry->task == "causal-lm") return;
  refuse_setting(config, "sample.prompt",
                 fmt::format("{} is for {} and does not go on from a text: set sample.prompt to \"\"",
                             config.network.entry->architecture, config.network.entry->task));
}

Run prepare_run(RunConfig config, const RunRequest& request, int64_t world_size) {
  Run run{std::move(config), request, {}, {}, {}};
  const auto& settings = run.config;
  run.mesh = settings.mesh_shape(world_size);
  refuse_if(ParallelModel::refusal(*settings.network.entry, *settings.network.config, run.mesh));
  check_reading(settings);
  check_targets(settings);
  check_dropout(settings);
  if (!settings.sample.prompt.empty()) check_sampling(settings);
  const auto batch = settings.batch_shape(run.mesh, 0);

  run.files = find_data_files(settings.data);
  BatchSource(TokenStream(run.files.training), batch, 0, 1);
  if (!run.files.held_out.empty()) BatchSource(TokenStream(run.files.held_out), batch, 0, 1);

  const auto weights = fs::path(settings.model.checkpoint).lexically_relative(settings.checkpoints());
  if (request.overwrite && !weights.empty() && *weights.begin() != "..")
    throw ConfigError("--overwrite would remove model.checkpoint, which lies in train.dir: choose another train.dir");
  if (request.resume) {
    run.checkpoint = checkpoint_to_resume(settings);
    check_manifest(fs::path(settings.train.dir) / "data.manifest", run.files);
  } else if (!settings.model.checkpoint.empty()) {
    check_weights(settings.model.checkpoint, settings.network);
  }
  return run;
}

void check_run_folder(const Run& run) {
  const fs::path folder = run.config.train.dir;
  if (run.request.resume || run.request.overwrite || !fs::exists(folder / "metrics.jsonl")) return;
  throw ConfigError(
      fmt::format("train.dir {} already holds a run: add --resume to go on with it, --overwrite to begin anew, or "
                  "choose another folder",
                  folder.string()));
}

}  // namespace modular
