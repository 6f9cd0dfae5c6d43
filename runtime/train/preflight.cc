#include "runtime/train/preflight.h"

#include <fmt/format.h>

#include <limits>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
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
  const auto refuse = [&](const char* key, const std::string& sentence) {
    const auto origin = config.origins.find(key);
    throw ConfigError(origin == config.origins.end() ? sentence : origin->second + ": " + sentence);
  };
  const auto vocabulary = vocab_size(config.network);
  if (config.data.format == "bytes" && vocabulary < 256)
    refuse("model.config.vocab_size",
           fmt::format("model.config.vocab_size must be at least 256 to read bytes, but is {}", vocabulary));
  const auto positions = model_count(config.network, "max_position_embeddings");
  if (positions && config.train.seq_len > *positions)
    refuse("train.seq_len", fmt::format("train.seq_len ({}) must not exceed model.config.max_position_embeddings ({})",
                                        config.train.seq_len, *positions));
}

Run prepare_run(RunConfig config, const RunRequest& request, int64_t world_size) {
  Run run{std::move(config), request, {}, {}, {}};
  const auto& settings = run.config;
  run.mesh = settings.mesh_shape(world_size);
  refuse_if(ParallelModel::refusal(*settings.network.entry, *settings.network.config, run.mesh));
  check_reading(settings);
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
