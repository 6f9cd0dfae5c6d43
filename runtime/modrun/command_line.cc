// Parses a command line over the options that the commands declare.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "runtime/config/config_field.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"

namespace modular {
namespace {

/// A row of the table of commands.
struct Command {
  const char* name;
  const char* help;
  ParsedCommand (*declare)(CLI::App& app);
};

/// In the order of --help.
constexpr Command kCommands[] = {
    {"train", "Train a model", declare_train},
    {"eval", "Evaluate a model on the validation data", declare_eval},
    {"sample", "Generate text with a model", declare_sample},
    {"predict", "Write a model's predictions for the examples in a file", declare_predict},
    {"forward", "Run one batch from a file and write logits, loss and gradients to a file", declare_forward},
    {"export", "Write a checkpoint as a Hugging Face folder", declare_export},
    {"import", "Write a Hugging Face folder as a checkpoint", declare_import},
    {"prepare", "Tokenize texts into training data", declare_prepare},
    {"repartition", "Rewrite Parquet files with other row groups", declare_repartition},
    {"search", "Train a config with other values in each trial, and find the best", declare_search},
    {"plan",
     "Show how a run is distributed over its ranks, with memory and communication per rank, without starting any",
     declare_plan},
    {"advise", "Rank the meshes of a cluster that fit a run by their time per step, without starting any",
     declare_advise},
    {"bench", "Compare parallelism strategies on this machine", declare_bench},
    {"measure", "Measure some training steps, without leaving a run behind", declare_measure},
    {"report", "Write runs and searches as a self-contained HTML page", declare_report},
    {"entries", "List the models of this program", declare_entries},
    {"settings", "List all config keys with their defaults and meanings", declare_settings},
};

/// CLI11's own errors show the largest representable number.
CLI::Validator number_check(bool may_be_zero) {
  return CLI::Validator(
      [may_be_zero](const std::string& text) {
        double number = 0.0;
        if (CLI::detail::lexical_cast(text, number) && (number > 0.0 || (may_be_zero && number == 0.0)))
          return std::string();
        return fmt::format("it must be {}, but is {}", may_be_zero ? "at least 0" : "above 0", text);
      },
      may_be_zero ? "NOT NEGATIVE" : "ABOVE 0");
}

/// Help of the program, including the launcher's flags, which precede the command and are parsed before CLI11.
std::string footer() {
  return launch_flags_help() +
         std::string(
             "\nExit status: 0 done; 1 the command failed while it ran; 2 rejected before anything ran "
             "(command line, config, data, mesh, checkpoint); 128 + n stopped by signal n.");
}

/// Rewrites a trailing `-- KEY=VALUE …` to `--set KEY=VALUE …` for commands with config options. Throws ConfigError if
/// a word is not an assignment.
std::vector<std::string> with_options_after_dashes(const CLI::App& app, std::vector<std::string> words) {
  const auto dashes = std::ranges::find(words, "--");
  const auto commands = app.get_subcommands(
      [&](const CLI::App* command) { return !words.empty() && command->get_name() == words.front(); });
  if (dashes == words.end() || commands.empty() || !commands.front()->get_option_no_throw("--set")) return words;
  const std::vector<std::string> overrides(dashes + 1, words.end());
  words.erase(dashes, words.end());
  for (const std::string& setting : overrides) {
    if (setting.find('=') == std::string::npos)
      throw ConfigError(fmt::format("after --, expected KEY=VALUE, but got \"{}\"", setting));
    words.insert(words.end(), {"--set", setting});
  }
  return words;
}

/// Prints why a command line is not run, or the help or the version that it asks for. Returns the exit status.
int explain(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  std::vector<std::string> known;
  for (const Command& command : kCommands) known.emplace_back(command.name);
  const bool is_unknown =
      !words.empty() && !words.front().starts_with('-') && std::ranges::find(known, words.front()) == known.end();
  if (is_unknown) {
    const auto nearest = nearest_name(words.front(), known);
    print_to(stderr, "modrun: unknown command \"{}\"{}; --help lists the commands\n", words.front(),
             nearest ? fmt::format(": did you mean {}?", *nearest) : "");
    return 2;
  }
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  print_to(stderr, "modrun: {}; --help lists the options\n", error.what());
  return 2;
}

}  // namespace

const CLI::Validator& above_zero() {
  static const CLI::Validator check = number_check(/*may_be_zero=*/false);
  return check;
}

const CLI::Validator& not_negative() {
  static const CLI::Validator check = number_check(/*may_be_zero=*/true);
  return check;
}

ParsedCommandLine parse_command_line(const std::vector<std::string>& words) {
  CLI::App app("Trains, evaluates and converts the models that modgen generates, on one process or many.",
               "modrun [LAUNCHER FLAGS]");
  app.footer(footer());
  app.set_version_flag("--version", MODULAR_VERSION);
  app.require_subcommand(1);
  std::map<std::string, ParsedCommand> declared;
  for (const Command& command : kCommands)
    declared.emplace(command.name, command.declare(*app.add_subcommand(command.name, command.help)));
  ParsedCommandLine result;
  try {
    std::vector<std::string> reversed = with_options_after_dashes(app, words);
    std::ranges::reverse(reversed);
    app.parse(reversed);
    result.name = app.get_subcommands().front()->get_name();
    result.command = declared.at(result.name);
  } catch (const CLI::ParseError& error) {
    result.exit_status = explain(app, error, words);
  }
  return result;
}

}  // namespace modular
