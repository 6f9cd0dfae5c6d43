#include "runtime/modrun/run_config.h"

#include <fmt/format.h>

#include <cstdlib>
#include <set>
#include <string>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
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
void note_renamed(const RunConfig& config) {
  static std::set<std::string> noted;
  if (std::getenv("MODULAR_LAUNCHED") || Environment::from_process().rank > 0) return;
  for (const std::string& sentence : config.renamed)
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

}  // namespace

bool is_run_folder(const Arguments& arguments) {
  const fs::path& file = arguments.config;
  return fs::is_directory(file) ||
         (file.filename() == "config.toml" && is_there(fs::path(file).replace_filename("data.manifest")));
}

RunConfig read_run_config_for(const Arguments& arguments) {
  auto file = arguments.config;
  auto settings = arguments.settings;
  const bool is_of_run = is_run_folder(arguments);
  if (is_of_run) {
    if (fs::is_directory(file)) file /= "config.toml";
    if (!is_there(file))
      throw ConfigError(fmt::format("{} does not exist: name a TOML file, or a run's folder", file.string()));
    // The folder's actual location counts, as it may have been moved or copied after its config.toml was written.
    const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
    settings.insert(settings.begin(), "train.dir=" + folder.string());
  }
  if (!arguments.checkpoint.empty()) settings.push_back("model.checkpoint=" + arguments.checkpoint.string());
  const bool is_trusted = arguments.trust_folder || !(is_of_run || is_stored(file));
  RunConfig config = read_run_config(file, settings, is_trusted ? ConfigSource::user : ConfigSource::run_folder);
  note_untrusted(config);
  note_renamed(config);
  return config;
}

void choose_weights(RunConfig& config, const Arguments& arguments) {
  if (arguments.checkpoint.empty()) {
    const auto newest = find_checkpoint(config.checkpoints());
    if (!newest.empty()) config.model.checkpoint = newest;
  }
  if (config.model.checkpoint.empty())
    throw ConfigError(fmt::format("{} holds no checkpoint: train first, or name weights with --checkpoint",
                                  config.checkpoints().string()));
  if (const auto checkpoint = find_checkpoint(config.model.checkpoint); !checkpoint.empty())
    config.model.checkpoint = checkpoint;
  check_weights(config.model.checkpoint, config.network);
}

std::string model_note(const ModelConfig& network, const fs::path& weights) {
  std::string note = unknown_keys_note(network);
  const std::string others = weights_note(weights, network, Head::stored);
  if (!note.empty() && !others.empty()) note += "\n";
  return note + others;
}

}  // namespace modular
