// The config and the weights that a command line names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/parallel/parallel_model.h"

namespace CLI {
class App;
}  // namespace CLI

namespace modular {

/// Options of every command that reads a config.
struct ConfigArguments {
  std::filesystem::path config;        // a TOML file, or a run's folder with its config.toml; may be empty
  std::vector<std::string> overrides;  // "key=value"
  bool trust_folder = false;           // whether to execute programs that a run's folder names
  std::filesystem::path checkpoint;    // weights instead of those of the config; may be empty
};

/// Declares CONFIG, --set, --trust-folder and the sizes of the mesh.
void add_config_options(CLI::App& app, ConfigArguments& arguments);

// Parts of these, for commands that declare the others themselves.
void add_setting_option(CLI::App& app, ConfigArguments& arguments, const std::string& help);
void add_trust_option(CLI::App& app, ConfigArguments& arguments);
void add_mesh_options(CLI::App& app, ConfigArguments& arguments);

/// Declares --checkpoint, for commands that use trained weights.
void add_checkpoint_option(CLI::App& app, ConfigArguments& arguments);

/// The words that pass the same config to another command.
std::vector<std::string> config_words(const std::string& command, const ConfigArguments& arguments);

/// Whether arguments.config is a run's folder, or the config.toml in one.
bool is_run_folder(const ConfigArguments& arguments);

/// Reads arguments.config and arguments.overrides. For a run's folder, reads its config.toml with train.dir set to the
/// folder. If a config was stored in a run's or a search's folder, programs and libraries that it names are used only
/// with arguments.trust_folder, and reported otherwise. Throws ConfigError.
RunConfig read_run_config_for(const ConfigArguments& arguments);

/// A config whose weights and mesh have been validated.
struct TrainedModel {
  RunConfig config;  // model.checkpoint is the location of the weights
  MeshShape mesh;
};

/// Resolves the command line of a command on trained weights for a number of ranks. Unless --checkpoint names weights,
/// they are the run's newest checkpoint, or else those of the config; a folder of checkpoints or a run's folder is
/// replaced by its newest checkpoint. Throws ConfigError if there are no weights, or if they or the mesh do not suit
/// the model.
TrainedModel prepare_model(const ConfigArguments& arguments, int64_t world_size);

/// Constructs the model and loads its weights. Collective.
std::unique_ptr<ParallelModel> load_model(const RunConfig& config, Mesh& mesh);

/// Notes on weights that a command uses unchanged, one per line: keys of config.json without a field, and tensors that
/// the model's class does not have.
std::string model_note(const ModelConfig& network, const std::filesystem::path& weights);

}  // namespace modular
