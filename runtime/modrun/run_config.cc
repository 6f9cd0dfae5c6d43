#include "runtime/modrun/run_config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/datasets/inferred_config.h"
#include "runtime/files/open_file.h"
#include "runtime/mesh/environment.h"
#include "runtime/mesh/print.h"
#include "runtime/train/preflight.h"

namespace modular {

namespace fs = std::filesystem;

namespace {

/// Reports values of a run's folder that were ignored, once per job.
void note_untrusted(const RunConfig& config) {
  if (std::getenv("MODULAR_LAUNCHED") || Environment::from_process().rank > 0) return;
  for (const auto& [key, sentence] : config.untrusted)
    if (key != "parallel.backend") print_to(stderr, "{}\n", sentence);  // the use of parallel.backend throws
}

/// Reports renamed keys, each once per job: `modrun search` reads its config for each trial.
void note_renamed(const std::vector<std::string>& renamed) {
  static std::set<std::string> noted;
  if (std::getenv("MODULAR_LAUNCHED") || Environment::from_process().rank > 0) return;
  for (const std::string& sentence : renamed)
    if (noted.insert(sentence).second) print_to(stderr, "{}\n", sentence);
}

/// Whether modrun itself wrote the config into a run's or a search's folder, which may come from somebody else.
bool is_stored(const fs::path& file) {
  const auto has = [&](const char* name) { return is_there(fs::path(file).replace_filename(name)); };
  if (file.filename() == "config.toml")
    return has("data.manifest") || has("checkpoints") || has("metrics.jsonl") || has("run.lock") || has("run.job");
  const bool is_of_front = file.parent_path().filename() == "pareto" && has("../trials.jsonl");
  return (file.filename() == "best.toml" && has("trials.jsonl")) || is_of_front;
}

/// Unless --checkpoint names weights, sets model.checkpoint to the run's newest checkpoint, if any; replaces a folder
/// of checkpoints or a run's folder by its newest checkpoint. Checks that the weights match.
void choose_weights(RunConfig& config, const ConfigArguments& arguments) {
  if (arguments.checkpoint.empty()) {
    const auto newest = find_checkpoint(config.train.checkpoints());
    if (!newest.empty()) config.model.checkpoint = newest;
  }
  if (config.model.checkpoint.empty())
    throw ConfigError(fmt::format("{} holds no checkpoint: train first, or name weights with --checkpoint",
                                  config.train.checkpoints().string()));
  if (const auto checkpoint = find_checkpoint(config.model.checkpoint); !checkpoint.empty())
    config.model.checkpoint = checkpoint;
  check_weights(config.model.checkpoint, config.network);
}

}  // namespace

void add_setting_option(CLI::App& app, ConfigArguments& arguments, const std::string& help) {
  app.add_option("--set", arguments.overrides, help)->allow_extra_args(false);
}

void add_trust_option(CLI::App& app, ConfigArguments& arguments) {
  app.add_flag("--trust-folder", arguments.trust_folder,
               "run the programs and load the libraries that CONFIG names, if it is a run's folder");
}

void add_mesh_options(CLI::App& app, ConfigArguments& arguments) {
  for (const auto& [flag, key] :
       {std::pair("--pp", "pp"), std::pair("--dp-replicate", "dp_replicate"), std::pair("--dp-shard", "dp_shard"),
        std::pair("--cp", "cp"), std::pair("--tp", "tp")})
    app.add_option_function<std::string>(
        flag,
        [&arguments, key = key](const std::string& size) {
          arguments.overrides.push_back(std::string("parallel.") + key + "=" + size);
        },
        std::string("size of the mesh axis: short for --set parallel.") + key + "=N");
}

void add_config_options(CLI::App& app, ConfigArguments& arguments) {
  app.add_option("CONFIG,-c,--config", arguments.config, "TOML file, or a run's folder");
  add_setting_option(app, arguments,
                     "KEY=VALUE: overrides a value of the file (`modrun settings` lists the keys); KEY=VALUE after -- "
                     "is equivalent");
  add_trust_option(app, arguments);
  add_mesh_options(app, arguments);
}

void add_checkpoint_option(CLI::App& app, ConfigArguments& arguments) {
  app.add_option(
      "--checkpoint", arguments.checkpoint,
      "a checkpoint, a folder of checkpoints, a run's folder, or a Hugging Face folder; default: the run's newest");
}

std::vector<std::string> config_words(const std::string& command, const ConfigArguments& arguments) {
  std::vector<std::string> words = {command};
  if (!arguments.config.empty()) words.push_back(arguments.config.string());
  for (const auto& setting : arguments.overrides) words.insert(words.end(), {"--set", setting});
  if (arguments.trust_folder) words.emplace_back("--trust-folder");
  return words;
}

bool is_run_folder(const ConfigArguments& arguments) {
  const fs::path& file = arguments.config;
  return fs::is_directory(file) ||
         (file.filename() == "config.toml" && is_there(fs::path(file).replace_filename("data.manifest")));
}

RunConfig read_run_config_for(const ConfigArguments& arguments) {
  auto file = arguments.config;
  auto overrides = arguments.overrides;
  const bool is_of_run = is_run_folder(arguments);
  if (is_of_run) {
    if (fs::is_directory(file)) file /= "config.toml";
    if (!is_there(file))
      throw ConfigError(fmt::format("{} does not exist: name a TOML file, or a run's folder", file.string()));
    // The folder's actual location counts, as it may have been moved or copied after its config.toml was written.
    const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
    overrides.insert(overrides.begin(), "train.dir=" + folder.string());
  }
  if (!arguments.checkpoint.empty()) overrides.push_back("model.checkpoint=" + arguments.checkpoint.string());
  const bool is_trusted = arguments.trust_folder || !(is_of_run || is_stored(file));
  RunConfig config = read_run_config(file, overrides, is_trusted ? ConfigSource::user : ConfigSource::run_folder);
  note_untrusted(config);
  note_renamed(config.renamed);
  return config;
}

TrainedModel prepare_model(const ConfigArguments& arguments, int64_t world_size) {
  TrainedModel model{read_run_config_for(arguments), {}};
  choose_weights(model.config, arguments);
  take_label_names(model.config);
  model.mesh = model.config.parallel.mesh_shape(world_size);
  const auto& network = model.config.network;
  const auto error =
      ParallelModel::error(*network.entry, *network.config, model.mesh, model.config.parallel_options().pipeline);
  if (!error.empty()) throw ConfigError(error);
  model.config.train.micro_batches = std::max<int64_t>(model.config.train.micro_batches, 1);
  return model;
}

std::unique_ptr<ParallelModel> load_model(const RunConfig& config, Mesh& mesh) {
  ParallelOptions options = config.parallel_options();
  options.initialize = false;
  auto model = std::make_unique<ParallelModel>(*config.network.entry, *config.network.config, mesh, options,
                                               static_cast<uint64_t>(config.train.seed));
  load_parameters(config.model.checkpoint, config.network, get_slices(*model));
  model->parameters_changed();
  return model;
}

std::string model_note(const ModelConfig& network, const fs::path& weights) {
  std::string note = unknown_keys_note(network);
  const std::string others = weights_note(weights, network, Head::stored);
  if (!note.empty() && !others.empty()) note += "\n";
  return note + others;
}

}  // namespace modular
