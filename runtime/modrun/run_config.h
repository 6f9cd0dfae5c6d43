// The config that a command line means, and the weights that go with it.
#pragma once

#include <filesystem>

#include "runtime/config/config.h"
#include "runtime/modrun/command_line.h"

namespace modular {

/// Whether arguments.config is the folder of a run, or the config.toml in one.
bool is_run_folder(const Arguments& arguments);

/// Reads arguments.config and arguments.settings. For a folder that is its config.toml, with train.dir the folder
/// itself. The programs and libraries that it names, or a config that modrun stored in the folder of a run or a search,
/// are taken only with arguments.trust_folder, and otherwise named in a note. Throws ConfigError.
RunConfig read_run_config_for(const Arguments& arguments);

/// For a command on a trained model: unless --checkpoint names weights, sets model.checkpoint to the run's newest
/// checkpoint, where it has one; of a folder of checkpoints or of a run, to its newest. Checks that the weights fit.
/// Throws ConfigError where there are none.
void choose_weights(RunConfig& config, const Arguments& arguments);

/// What is worth knowing of weights that a command uses as they are, a line each: keys of config.json that no field
/// has, and tensors that the model's class does not have.
std::string model_note(const ModelConfig& network, const std::filesystem::path& weights);

}  // namespace modular
