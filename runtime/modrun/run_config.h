// Resolves the config and the weights that a command line names.
#pragma once

#include <filesystem>

#include "runtime/config/config.h"
#include "runtime/modrun/command_line.h"

namespace modular {

/// Whether arguments.config is a run's folder, or the config.toml in one.
bool is_run_folder(const Arguments& arguments);

/// Reads arguments.config and arguments.settings. For a run's folder, reads its config.toml with train.dir set to the
/// folder. If a config was stored in a run's or a search's folder, programs and libraries that it names are used only
/// with arguments.trust_folder, and reported otherwise. Throws ConfigError.
RunConfig read_run_config_for(const Arguments& arguments);

/// For commands on trained models: unless --checkpoint names weights, sets model.checkpoint to the run's newest
/// checkpoint, if any; a folder of checkpoints or a run's folder is replaced by its newest checkpoint. Checks that the
/// weights match. Throws ConfigError if there are none.
void choose_weights(RunConfig& config, const Arguments& arguments);

/// Notes on weights that a command uses unchanged, one per line: keys of config.json without a field, and tensors that
/// the model's class does not have.
std::string model_note(const ModelConfig& network, const std::filesystem::path& weights);

}  // namespace modular
