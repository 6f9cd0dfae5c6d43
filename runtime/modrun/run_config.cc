#include "runtime/modrun/run_config.h"

#include <fmt/format.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/train/preflight.h"

namespace modular {

namespace fs = std::filesystem;

RunConfig read_config_of(const Arguments& arguments) {
  auto file = arguments.config;
  auto settings = arguments.settings;
  if (fs::is_directory(file)) {
    file /= "config.toml";
    if (!fs::exists(file))
      throw ConfigError(fmt::format("{}: is not there: name a TOML file, or the folder of a run", file.string()));
    settings.insert(settings.begin(), "train.dir=" + file.parent_path().string());
  } else if (file.filename() == "config.toml" && fs::exists(file.parent_path() / "data.manifest")) {
    // A run is where its folder is, which may have been moved or copied, and not where its own file says.
    const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
    settings.insert(settings.begin(), "train.dir=" + folder.string());
  }
  if (!arguments.checkpoint.empty()) settings.push_back("model.checkpoint=" + arguments.checkpoint.string());
  return read_run_config(file, settings);
}

void choose_weights(RunConfig& config, const Arguments& arguments) {
  if (arguments.checkpoint.empty()) {
    const auto newest = find_checkpoint(config.checkpoints());
    if (!newest.empty()) config.model.checkpoint = newest;
  }
  if (config.model.checkpoint.empty())
    throw ConfigError(fmt::format("{} holds no checkpoint: train first, or name weights with --checkpoint",
                                  config.checkpoints().string()));
  check_weights(config.model.checkpoint, config.network);
}

}  // namespace modular
