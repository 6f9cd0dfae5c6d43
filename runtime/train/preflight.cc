#include "runtime/train/preflight.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/sentence_transformers.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/config/config_errors.h"
#include "runtime/config/config_field.h"
#include "runtime/config/resize_embeddings.h"
#include "runtime/datasets/inferred_config.h"
#include "runtime/datasets/model_checks.h"
#include "runtime/datasets/partitions.h"
#include "runtime/datasets/run_datasets.h"
#include "runtime/files/open_file.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/train/device_usage.h"
#include "runtime/train/folder_lock.h"

namespace modular {

namespace fs = std::filesystem;

namespace {

void check_trace(const RunConfig& config, int64_t world_size) {
  const auto& trace = config.metrics.trace;
  if (!trace.empty() && !config.checkpoint.shared && world_size > 1)
    throw_option_error(
        config, "metrics.trace",
        "metrics.trace has every rank write a file into train.dir, which with checkpoint.shared = false rank "
        "0 alone has: leave it out, or trace a run on one machine, with checkpoint.shared = true");
  const int64_t steps = config.train.steps;
  if (trace.empty() || (trace.size() == 2 && 1 <= trace[0] && trace[0] <= trace[1] && trace[1] <= steps)) return;
  throw_option_error(
      config, "metrics.trace",
      fmt::format("metrics.trace is [{}]: give the first and the last step to trace, from 1 to train.steps "
                  "({}), e.g. [{}, {}]",
                  fmt::join(trace, ", "), steps, std::min<int64_t>(10, steps), std::min<int64_t>(12, steps)));
}

/// Rejects options that would change the samples that follow the ones already trained on. Returns a note on other
/// options whose meaning changes; may be empty.
std::string check_continued(RunConfig& config, int64_t samples) {
  const fs::path file = fs::path(config.train.dir) / "config.toml";
  if (!is_there(file))
    return fmt::format(
        "--resume: {} is missing: the run continues with the current config, which could not be compared with the "
        "original one",
        file.string());
  RunConfig before = read_run_config(file, {"train.dir=" + config.train.dir}, ConfigSource::run_folder);
  count_steps(before, samples);
  if (config.data.partitions == 0) config.data.partitions = before.data.partitions;  // the run's own, on any mesh
  const auto then = section_fields(before), now = section_fields(config);
  for (const std::string_view path :
       {"data.format", "data.sets", "data.validation_every", "data.validation", "data.validation_fraction", "data.pack",
        "data.end_of_text", "data.group_by_length", "data.order", "data.partitions", "data.mask_probability",
        "data.mask_token", "train.seq_len", "train.seed", "optim.frozen", "optim.name"}) {
    const auto is_it = [&](const ConfigField& field) { return field.path == path; };
    const std::string was = toml_value(std::ranges::find_if(then, is_it)->value),
                      is = toml_value(std::ranges::find_if(now, is_it)->value);
    if (was == is) continue;
    throw_option_error(
        config, std::string(path),
        fmt::format(
            "--resume: {0} is {1}, and was {2} when the run began: {3}. Set it to {2}, or start a run in another "
            "train.dir",
            path, is, was,
            path == "optim.frozen" ? "its optimizer has other parameters"
            : path == "optim.name" ? "its checkpoints hold the state of another optimizer"
                                   : "its next samples would come from other data"));
  }
  if (config.optim.name == "sgd" && (before.optim.momentum == 0.0) != (config.optim.momentum == 0.0))
    throw_option_error(
        config, "optim.momentum",
        fmt::format("--resume: optim.momentum is {}, and was {} when the run began: its checkpoints hold {}. "
                    "Set it to {}, or start a run in another train.dir",
                    config.optim.momentum, before.optim.momentum,
                    before.optim.momentum == 0.0 ? "no momentum" : "the momentum", before.optim.momentum));
  std::string note;
  if (before.train.batch_size != config.train.batch_size)
    note = fmt::format(
        "--resume: train.batch_size was {} and is {}: the run continues at the same sample, with steps of another size",
        before.train.batch_size, config.train.batch_size);
  if (before.train.steps == config.train.steps || !config.schedule().depends_on_steps()) return note;
  const auto length = [](const RunConfig& run) {
    return run.train.epochs > 0.0 ? fmt::format("{} by train.epochs = {}", run.train.steps, run.train.epochs)
                                  : fmt::format("{}", run.train.steps);
  };
  return note + (note.empty() ? "" : "\n") +
         fmt::format(
             "--resume: train.steps was {} and is {}: optim.lr now follows the {} schedule of a run of {} steps",
             length(before), length(config), config.optim.schedule, config.train.steps);
}

/// Appends a line to a text, unless the line is empty.
void add_line(std::string& text, const std::string& line) {
  if (!line.empty()) text.append(text.empty() ? "" : "\n").append(line);
}

/// Throws if a file or folder of a run is something else, before anything is written.
void check_files(const fs::path& folder) {
  for (const char* name : {"config.toml", "data.manifest", "metrics.jsonl", "run.job", "wandb.id"})
    if (is_there(folder / name)) open_to_read(folder / name);
  for (const char* name : {"checkpoints", "row-groups", "tensorboard", "tokenizer", "trace", "wandb"})
    check_no_links({folder, name});
}

fs::path checkpoint_to_resume(const RunConfig& config, const std::string& name, int64_t rank) {
  const auto checkpoint = name.empty() ? find_checkpoint(config.checkpoints()) : config.checkpoints() / name;
  if (checkpoint.empty())
    throw ConfigError(
        fmt::format("--resume: {} holds no checkpoint: start without --resume, with --overwrite if a run ended before "
                    "its first checkpoint, or set train.dir to the run's folder{}",
                    config.checkpoints().string(),
                    rank > 0 ? "; if only rank 0's machine has it, set checkpoint.shared = false" : ""));
  check_no_links(run_path(checkpoint / "checkpoint.json"));
  if (!fs::exists(checkpoint / "checkpoint.json"))
    throw ConfigError(fmt::format("--resume={}: {} is not a checkpoint: name a folder of {}, or auto", name,
                                  checkpoint.string(), config.checkpoints().string()));
  reject_if(checkpoint_error(checkpoint, config.network));
  // The link to the best checkpoint may point elsewhere later.
  return fs::is_symlink(checkpoint) ? config.checkpoints() / fs::read_symlink(checkpoint).filename() : checkpoint;
}

}  // namespace

void check_weights(const fs::path& folder, const ModelConfig& model, Head head) {
  const auto checkpoint = find_checkpoint(folder);
  if (checkpoint.empty()) return reject_if(pretrained_error(folder, model, head));
  reject_if(checkpoint_error(checkpoint, as_stored(model, checkpoint, head)));
}

bool reads_weights(const RunConfig& config) {
  if (!config.first_reads()) return true;
  const fs::path folder = config.model.checkpoint, place = transformer_folder(folder);
  return Environment::from_process().rank == 0 &&
         (fs::exists(place / kPretrainedFile) || fs::exists(place / kPretrainedIndex) ||
          !find_checkpoint(folder).empty());
}

void count_steps(RunConfig& config, int64_t samples) {
  if (config.train.epochs == 0.0) return;
  const int64_t all = config.samples_of_epochs(samples);
  config.train.steps = (all + config.train.batch_size - 1) / config.train.batch_size;
}

MeshShape check_run_config(const RunConfig& settings, int64_t world_size) {
  const MeshShape mesh = settings.mesh_shape(world_size);
  const ParallelOptions parallel = settings.parallel_options();
  if (const auto [key, sentence] = pipeline_error(parallel.pipeline, mesh[Axis::pp], settings.train.micro_batches);
      !sentence.empty())
    throw_option_error(settings, key, sentence);
  check_dropout(settings);
  if (const auto [key, sentence] = memory_error(*settings.network.entry, *settings.network.config, parallel.units,
                                                parallel.recompute, parallel.offload);
      !sentence.empty())
    throw_option_error(settings, key, sentence);
  if (settings.train.deterministic) reject_if(deterministic_error());
  reject_if(ParallelModel::error(*settings.network.entry, *settings.network.config, mesh, parallel.pipeline));
  check_resized(settings);
  check_reading(settings);
  check_targets(settings);
  if (const auto [key, sentence] = packing_error(settings); !sentence.empty())
    throw_option_error(settings, key, sentence);
  check_router(settings);
  check_sampled_softmax(settings);
  if (settings.train.epochs == 0.0) check_trace(settings, world_size);
  check_named_parameters(settings);
  if (!settings.sample.prompt.empty()) check_sampling(settings);
  return mesh;
}

Run prepare_run(RunConfig config, const RunRequest& asked, int64_t world_size) {
  Run run{std::move(config), asked, {}, {}, {}};
  const auto& settings = run.config;
  if (!run.has_folder()) run.request = {.rank = asked.rank};
  if (run.request.automatic) run.request.resume = !find_checkpoint(settings.checkpoints()).empty();
  const RunRequest& request = run.request;
  run.mesh = check_run_config(settings, world_size);
  run.config.train.batch_size = settings.batch_shape(run.mesh, 0).global();

  run.sets = find_data_sets(settings);
  add_line(run.note, infer_problem(run.config, run.sets));
  add_line(run.note, name_labels(run.config, run.sets));
  open_datasets(settings, run.sets);
  choose_sentence_loss(run.config, run.sets);
  reject_if(checkpoint_best_error(settings));
  int64_t samples = 0;
  for (const RunDataset& set : run.sets) {
    check_sentence_data(settings, set);
    samples += set.training->count();
  }
  count_steps(run.config, samples);
  check_trace(settings, world_size);
  for (const auto& [key, is_set] : {std::pair("checkpoint.best", !settings.checkpoint.best.empty()),
                                    std::pair("eval.patience", settings.eval.patience > 0)})
    if (is_set && std::ranges::none_of(run.sets, &RunDataset::has_validation))
      throw_option_error(
          settings, key,
          fmt::format("{} compares evaluations, and there is no validation data: set data.validation_every, "
                      "data.validation or data.validation_fraction, or leave it out",
                      key));
  if (settings.eval.patience > 0 && settings.eval.every <= 0)
    throw_option_error(settings, "eval.patience",
                       fmt::format("eval.patience is {}, and eval.every {}, without evaluations during the run: set "
                                   "eval.every to a number of steps",
                                   settings.eval.patience, settings.eval.every));
  const fs::path best = settings.checkpoints() / "best";
  if (!settings.checkpoint.best.empty() && !fs::is_symlink(best) && fs::exists(best))
    throw_option_error(
        settings, "checkpoint.best",
        fmt::format("{} exists and is not a link, and checkpoint.best creates a link of that name: move it away",
                    best.string()));

  if (request.overwrite && !settings.model.checkpoint.empty()) {
    const fs::path named = settings.model.checkpoint, found = find_checkpoint(named);
    const fs::path within = fs::weakly_canonical(found.empty() ? named : found)
                                .lexically_relative(fs::weakly_canonical(settings.checkpoints()));
    if (*within.begin() != "..")
      throw ConfigError("--overwrite would remove model.checkpoint, which is in train.dir: choose another train.dir");
  }
  if (request.resume) {
    run.checkpoint = checkpoint_to_resume(settings, request.checkpoint, request.rank);
    add_line(run.note, check_continued(run.config, samples));
    check_manifest(fs::path(settings.train.dir) / "data.manifest", get_files(run.sets));
  } else if (!request.follows && !settings.model.checkpoint.empty() && reads_weights(settings)) {
    check_weights(settings.model.checkpoint, settings.network, Head::may_be_new);
  }
  prepare_partitions(run.config, run.sets, settings.batch_shape(run.mesh, 0).dp_size);
  return run;
}

void make_run_folder(const Run& run) {
  if (!run.has_folder()) return;
  const fs::path folder = run.config.train.dir;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || ::access(folder.c_str(), W_OK | X_OK) != 0)
    throw ConfigError(fmt::format("train.dir {} cannot be written: {}", folder.string(),
                                  error ? error.message() : std::strerror(errno)));
}

void check_run_folder(const Run& run) {
  if (!run.has_folder()) return;
  const fs::path folder = run.config.train.dir;
  FolderLock::check(folder);
  if (!run.request.overwrite) check_files(folder);
  if (run.request.resume || run.request.overwrite || run.request.measured) return;
  const auto is_kept = [](const fs::directory_entry& entry) { return entry.path().extension() != ".partial"; };
  const fs::path checkpoints = run.config.checkpoints();
  const bool holds_checkpoints =
      fs::is_directory(checkpoints) && std::ranges::any_of(fs::directory_iterator(checkpoints), is_kept);
  if (run.request.automatic) {
    if (!holds_checkpoints) return;
    throw ConfigError(
        fmt::format("--resume=auto: {} is not empty, but has no complete checkpoint to continue from: move it away, or "
                    "add --overwrite instead to remove it and start again",
                    checkpoints.string()));
  }
  if (!fs::exists(folder / "metrics.jsonl") && !holds_checkpoints) return;
  throw ConfigError(fmt::format("train.dir {} already holds a run{}, or choose another folder", folder.string(),
                                find_checkpoint(checkpoints).empty()
                                    ? " that saved no checkpoint: add --overwrite to start again"
                                    : ": add --resume to continue it, --overwrite to start again"));
}

}  // namespace modular
