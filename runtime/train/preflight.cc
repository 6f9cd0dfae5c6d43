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
#include "runtime/config/run_tokenizer.h"
#include "runtime/datasets/inferred_config.h"
#include "runtime/datasets/model_checks.h"
#include "runtime/datasets/partitions.h"
#include "runtime/datasets/run_datasets.h"
#include "runtime/files/open_file.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/tensor/sequence_parallel.h"
#include "runtime/train/device_usage.h"
#include "runtime/train/folder_lock.h"

namespace modular {

namespace fs = std::filesystem;

namespace {

void validate_trace(const RunConfig& config, int64_t world_size, Problems& problems) {
  const auto& trace = config.metrics.trace;
  const int64_t steps = config.train.steps;
  if (!trace.empty() && !config.checkpoint.shared && world_size > 1)
    problems.add_if(
        config, "metrics.trace",
        "metrics.trace has every rank write a file into train.dir, which with checkpoint.shared = false rank "
        "0 alone has: leave it out, or trace a run on one machine, with checkpoint.shared = true");
  else if (!trace.empty() && (trace.size() != 2 || trace[0] < 1 || trace[0] > trace[1] || trace[1] > steps))
    problems.add_if(
        config, "metrics.trace",
        fmt::format("metrics.trace is [{}]: give the first and the last step to trace, from 1 to train.steps "
                    "({}), e.g. [{}, {}]",
                    fmt::join(trace, ", "), steps, std::min<int64_t>(10, steps), std::min<int64_t>(12, steps)));
}

/// Problems of the distribution over the mesh.
void validate_distribution(const RunConfig& config, const MeshShape& mesh, Problems& problems) {
  const auto& [entry, network] = std::tie(*config.network.entry, *config.network.config);
  const ParallelOptions parallel = config.parallel_options();
  const PipelineError pipeline = pipeline_error(parallel.pipeline, mesh[Axis::pp], config.train.micro_batches);
  problems.add_if(config, pipeline.key, pipeline.sentence);
  problems.collect([&] { check_dropout(config); });
  problems.collect([&] {
    const auto [key, sentence] = memory_error(entry, network, parallel.units, parallel.recompute, parallel.offload);
    problems.add_if(config, key, sentence);
  });
  problems.add_if(config, "parallel.sequence", sequence_error(entry, parallel.sequence));
  if (config.train.deterministic) problems.add_if(deterministic_error());
  if (problems.empty())  // it builds the model, and assumes a valid pipeline
    problems.add_if(ParallelModel::error(entry, network, mesh, parallel.pipeline));
}

/// Problems of options that the model does not support.
void validate_options(const RunConfig& config, Problems& problems) {
  for (const auto check : {check_resized, check_reading, check_targets}) problems.collect([&] { check(config); });
  problems.collect([&] {
    const PackingError packing = packing_error(config);
    problems.add_if(config, packing.key, packing.sentence);
  });
  for (const auto check : {check_router, check_sampled_softmax, check_named_parameters})
    problems.collect([&] { check(config); });
  if (!config.sample.prompt.empty()) problems.collect([&] { check_sampling(config); });
}

/// Problems of options that need metrics, validation data, or evaluations during the run.
void validate_evaluations(const RunConfig& config, const std::vector<RunDataset>& sets, Problems& problems) {
  problems.add_if(checkpoint_best_error(config));
  const bool has_validation = std::ranges::any_of(sets, &RunDataset::has_validation);
  for (const auto& [key, is_set] : {std::pair("checkpoint.best", !config.checkpoint.best.empty()),
                                    std::pair("eval.patience", config.eval.patience > 0)})
    if (is_set && !has_validation)
      problems.add_if(
          config, key,
          fmt::format("{} compares evaluations, and there is no validation data: set data.validation_every, "
                      "data.validation or data.validation_fraction, or leave it out",
                      key));
  if (config.eval.patience > 0 && config.eval.every <= 0)
    problems.add_if(config, "eval.patience",
                    fmt::format("eval.patience is {}, and eval.every {}, without evaluations during the run: set "
                                "eval.every to a number of steps",
                                config.eval.patience, config.eval.every));
}

/// Problems of what a new run would replace in train.dir.
void validate_replaced(const RunConfig& config, const RunRequest& request, Problems& problems) {
  const fs::path best = config.train.checkpoints() / "best";
  if (!config.checkpoint.best.empty() && !fs::is_symlink(best) && fs::exists(best))
    problems.add_if(
        config, "checkpoint.best",
        fmt::format("{} exists and is not a link, and checkpoint.best creates a link of that name: move it away",
                    best.string()));
  if (!request.overwrite || config.model.checkpoint.empty()) return;
  const fs::path named = config.model.checkpoint, found = find_checkpoint(named);
  const fs::path within = fs::weakly_canonical(found.empty() ? named : found)
                              .lexically_relative(fs::weakly_canonical(config.train.checkpoints()));
  if (*within.begin() != "..")
    problems.add("--overwrite would remove model.checkpoint, which is in train.dir: choose another train.dir");
}

fs::path stored_config(const TrainSection& train) { return fs::path(train.dir) / "config.toml"; }

/// The config with which the run in train.dir began; nullopt if its file is missing.
std::optional<RunConfig> read_stored_config(const TrainSection& train) {
  const fs::path file = stored_config(train);
  if (!is_there(file)) return {};
  return read_run_config(file, {"train.dir=" + train.dir}, ConfigSource::run_folder);
}

/// Rejects options that would change the samples that follow the ones already trained on. Returns a note on other
/// options whose meaning changes; may be empty.
std::string check_continued(RunConfig config, RunConfig before, int64_t samples) {
  before.train.steps = count_steps(before.train, samples);
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
  const OptimizerKind& optimizer = optimizer_kind(config.optim.name);
  if (optimizer.least_state(before.optim) != optimizer.least_state(config.optim))
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

fs::path checkpoint_to_resume(const fs::path& checkpoints, const ModelConfig& network, const std::string& name,
                              int64_t rank) {
  const auto checkpoint = name.empty() ? find_checkpoint(checkpoints) : checkpoints / name;
  if (checkpoint.empty())
    throw ConfigError(fmt::format(
        "--resume: {} holds no checkpoint: start without --resume, with --overwrite if a run ended before "
        "its first checkpoint, or set train.dir to the run's folder{}",
        checkpoints.string(), rank > 0 ? "; if only rank 0's machine has it, set checkpoint.shared = false" : ""));
  check_no_links(run_path(checkpoint / "checkpoint.json"));
  if (!fs::exists(checkpoint / "checkpoint.json"))
    throw ConfigError(fmt::format("--resume={}: {} is not a checkpoint: name a folder of {}, or auto", name,
                                  checkpoint.string(), checkpoints.string()));
  reject_if(checkpoint_error(checkpoint, network));
  // The link to the best checkpoint may point elsewhere later.
  return fs::is_symlink(checkpoint) ? checkpoints / fs::read_symlink(checkpoint).filename() : checkpoint;
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

int64_t count_steps(const TrainSection& train, int64_t samples) {
  if (train.epochs == 0.0) return train.steps;
  return (train.samples_of_epochs(samples) + train.batch_size - 1) / train.batch_size;
}

MeshShape check_run_config(const RunConfig& config, int64_t world_size) {
  const MeshShape mesh = config.parallel.mesh_shape(world_size);
  Problems problems;
  validate_distribution(config, mesh, problems);
  problems.throw_if_any();
  validate_options(config, problems);
  if (config.train.epochs == 0.0) validate_trace(config, world_size, problems);
  problems.throw_if_any();
  return mesh;
}

namespace {

/// The request as far as this process can carry it out: without train.dir, rank 0 decides whether the run resumes.
RunRequest decide(const RunConfig& config, RunRequest request) {
  if (!sees_folder(config.checkpoint, request)) return {.rank = request.rank};
  if (request.automatic) request.resume = !find_checkpoint(config.train.checkpoints()).empty();
  return request;
}

/// Derives what follows from the config, the mesh and the headers of the data's files: batch size, data sets, problem
/// type, labels, losses, number of steps, and the partitions of the run that is resumed, whose config was `before`.
Run resolve(RunConfig config, const RunRequest& request, const MeshShape& mesh,
            const std::optional<RunConfig>& before) {
  Run run{.config = std::move(config), .request = request, .mesh = mesh};
  RunConfig& resolved = run.config;
  resolved.train.batch_size = resolved.batch_shape(mesh, 0).global();
  run.sets = find_data_sets(resolved);
  add_line(run.note, infer_problem(resolved, run.sets));
  add_line(run.note, name_labels(resolved, run.sets));
  open_datasets(resolved, run.sets);
  choose_sentence_loss(resolved, run.sets);
  for (const RunDataset& set : run.sets) {
    check_sentence_data(resolved, set);
    run.samples += set.training->count();
  }
  resolved.train.steps = count_steps(resolved.train, run.samples);
  if (before && resolved.data.partitions == 0) resolved.data.partitions = before->data.partitions;
  return run;
}

/// Throws ConfigError with all problems of the resolved config.
void check_resolved(const Run& run, int64_t world_size) {
  Problems problems;
  validate_trace(run.config, world_size, problems);
  validate_evaluations(run.config, run.sets, problems);
  validate_replaced(run.config, run.request, problems);
  problems.throw_if_any();
}

/// Finds the checkpoint to resume, and compares the run with the one that wrote it.
void check_resumed(Run& run, const std::optional<RunConfig>& before) {
  const RunConfig& config = run.config;
  run.checkpoint =
      checkpoint_to_resume(config.train.checkpoints(), config.network, run.request.checkpoint, run.request.rank);
  add_line(run.note, before ? check_continued(config, *before, run.samples)
                            : fmt::format("--resume: {} is missing: the run continues with the current config, which "
                                          "could not be compared with the original one",
                                          stored_config(config.train).string()));
  check_manifest(fs::path(config.train.dir) / "data.manifest", get_files(run.sets));
}

void check_initial_weights(const Run& run) {
  const std::string& weights = run.config.model.checkpoint;
  if (run.request.follows || weights.empty() || !reads_weights(run.config)) return;
  check_weights(weights, run.config.network, Head::may_be_new);
}

}  // namespace

Run prepare_run(RunConfig config, const RunRequest& asked, int64_t world_size) {
  const RunRequest request = decide(config, asked);
  const MeshShape mesh = check_run_config(config, world_size);
  const std::optional<RunConfig> before = request.resume ? read_stored_config(config.train) : std::nullopt;
  Run run = resolve(std::move(config), request, mesh, before);
  check_resolved(run, world_size);
  if (request.resume)
    check_resumed(run, before);
  else
    check_initial_weights(run);
  prepare_partitions(run.config, run.sets, run.config.batch_shape(mesh, 0).dp_size);
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
  const fs::path checkpoints = run.config.train.checkpoints();
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
