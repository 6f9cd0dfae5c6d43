// The commands of modrun. Each one declares its options in the file that implements it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/launch/launcher.h"
#include "runtime/mesh/mesh.h"
#include "runtime/modrun/run_config.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace modular {

/// A command that runs on ranks, validated and ready to start.
struct PreparedCommand {
  MeshShape mesh;
  MeshOptions options;
  std::function<int(Mesh&)> run;       // collective; returns the exit status
  std::function<void()> before_ranks;  // called once per job, before its first rank starts; may be empty
  std::string note;                    // for the user, printed once per job; may be empty
};

/// Runs in one process. `world_size` is the number of ranks of the launcher's flags. Returns the exit status.
using LocalCommand = std::function<int(const LaunchOptions& launch, int64_t world_size)>;

/// Prepares a command that runs on ranks. `env` describes this rank, or the first rank that this launcher starts.
/// Throws ConfigError, DataError or std::runtime_error if the command cannot run on the ranks of that world, before
/// anything starts.
using RankCommand = std::function<PreparedCommand(const Environment& env)>;

/// A command with the values of its options.
using ParsedCommand = std::variant<LocalCommand, RankCommand>;

// Each declares the options of a command. The result reads their values, so it is called after parsing only.

ParsedCommand declare_train(CLI::App& app);
ParsedCommand declare_eval(CLI::App& app);
ParsedCommand declare_sample(CLI::App& app);
ParsedCommand declare_predict(CLI::App& app);
ParsedCommand declare_forward(CLI::App& app);
ParsedCommand declare_export(CLI::App& app);
ParsedCommand declare_import(CLI::App& app);
ParsedCommand declare_prepare(CLI::App& app);
ParsedCommand declare_repartition(CLI::App& app);
ParsedCommand declare_search(CLI::App& app);
ParsedCommand declare_plan(CLI::App& app);
ParsedCommand declare_advise(CLI::App& app);
ParsedCommand declare_bench(CLI::App& app);
ParsedCommand declare_measure(CLI::App& app);
ParsedCommand declare_report(CLI::App& app);
ParsedCommand declare_entries(CLI::App& app);
ParsedCommand declare_settings(CLI::App& app);

/// `modrun train`, which `modrun search` prepares for each trial.
struct TrainArguments : ConfigArguments {
  std::string resume;  // "yes", "auto" (resume if possible), or a checkpoint's name; "" for no
  bool overwrite = false;
};
PreparedCommand prepare_train(const TrainArguments& arguments, const Environment& env);

/// Checks of a number's range, with messages that name the limit.
const CLI::Validator& above_zero();
const CLI::Validator& not_negative();

/// A command line without the program and the launcher's flags.
struct ParsedCommandLine {
  std::string name;  // "train", "eval", …
  ParsedCommand command;
  std::optional<int> exit_status;  // if the line is invalid (2), or asks for help or the version (0); both are printed
};

/// Throws ConfigError if a word after `--` is not an assignment.
ParsedCommandLine parse_command_line(const std::vector<std::string>& words);

}  // namespace modular
