// `modrun search`: trains a config once for each trial with other settings, and says which were the best.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <optional>
#include <tuple>

#include "runtime/launch/launcher.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/search/optuna.h"
#include "runtime/train/config_field.h"

namespace modular {
namespace {

/// Settings of the search itself are none of a trial's.
bool is_of_search(const std::string& setting) { return setting.starts_with("search."); }

Arguments of_trial(const Arguments& arguments, const TrialSettings& settings, const std::filesystem::path& folder) {
  Arguments trial = arguments;
  trial.command = "train";
  std::erase_if(trial.settings, is_of_search);
  for (const auto& [key, value] : settings) trial.settings.push_back(key + "=" + value);
  trial.settings.push_back("train.dir=" + folder.string());
  trial.resume = "auto";  // a trial that was interrupted goes on
  return trial;
}

/// Checks each value, or the ends of each range, beside the other settings of the config.
void check_values(const Arguments& arguments, const SearchConfig& search, const Environment& place) {
  for (const Dimension& dimension : search.space) {
    std::vector<std::string> values = dimension.choices;
    if (values.empty()) values = {dimension.at(0.0), dimension.at(1.0)};
    for (const std::string& value : values) {
      try {
        prepare_train(of_trial(arguments, {{dimension.key, value}}, search.dir / "trials/0000"), place);
      } catch (const std::exception& error) {
        throw ConfigError(fmt::format("search.space has {} = {}: {}", dimension.key, value, error.what()));
      }
    }
  }
}

std::vector<std::string> words_of(const Arguments& arguments) {
  std::vector<std::string> words = {"train", arguments.config.string(), "--resume=auto"};
  for (const std::string& setting : arguments.settings) words.insert(words.end(), {"--set", setting});
  return words;
}

std::string shown(const TrialSettings& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  return text;
}

std::string shown(const Trial& trial, const std::vector<Objective>& objectives) {
  if (!trial.failure.empty()) return trial.failure;
  std::string text;
  for (size_t i = 0; i < objectives.size(); ++i)
    text += fmt::format("{}{} {:.6g}", i == 0 ? "" : ", ", objectives[i].name, trial.values[i]);
  return text;
}

}  // namespace

int run_search(const Arguments& arguments, const LaunchOptions& launch_options) {
  using Clock = std::chrono::steady_clock;
  if (launch_options.nodes > 1)
    throw ConfigError("modrun search starts trials on this machine alone: leave --nnodes out");
  std::vector<std::string> known;
  Arguments plain = arguments;
  std::erase_if(plain.settings, is_of_search);
  RunConfig config = read_config_of(plain);
  for (const auto& fields : {section_fields(config), model_fields(*config.network.config)})
    std::ranges::transform(fields, std::back_inserter(known), &ConfigField::path);
  SearchConfig search = read_search_config(arguments.config, arguments.settings, known);
  if (arguments.trials > 0) search.trials = arguments.trials;
  if (search.backend == "grid") search.trials = std::min(search.trials, grid_size(search.space));
  const Environment place{.world_size = launch_options.ranks_per_node,
                          .local_world_size = launch_options.ranks_per_node};
  check_values(arguments, search, place);

  std::optional<Optuna> optuna;
  if (search.backend == "optuna") optuna.emplace(search);
  Study study(search, !arguments.resume.empty());
  if (optuna) optuna->open(study.trials());
  at::set_num_threads(1);                            // the launcher handles signals on its only thread
  setenv("MODULAR_LAUNCHED", "1", /*overwrite=*/1);  // what is checked once a job is checked here
  LaunchOptions options = launch_options;
  options.quiet = true;
  for (auto count = static_cast<int64_t>(study.trials().size()); count < search.trials; ++count) {
    Trial trial{.number = count};
    if (optuna)
      std::tie(trial.number, trial.settings) = optuna->next();
    else
      trial.settings =
          search.backend == "grid" ? grid_point(search.space, count) : draw(search.space, search.seed, count);
    const auto folder = study.run_folder(trial.number);
    const auto begin = Clock::now();
    options.log_folder = (folder / "logs").string();
    print_to(stdout, "trial {} ({} of {})  {}\n", trial.number, count + 1, search.trials, shown(trial.settings));
    try {
      const Arguments of_this = of_trial(arguments, trial.settings, folder);
      prepare_train(of_this, place).before_ranks();
      const int status = launch_self(options, words_of(of_this));
      const bool is_interrupted = status == 128 + SIGINT || status == 128 + SIGTERM || status == 128 + SIGHUP;
      if (is_interrupted) return status;  // the trial goes on with --resume
      if (status != 0) throw std::runtime_error(fmt::format("its run failed with status {}", status));
      trial.values = values_of_run(folder, search.objectives);
    } catch (const std::runtime_error& error) {
      trial.failure = error.what();
    }
    trial.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    print_to(stdout, "  {}  in {:.1f} s\n", shown(trial, search.objectives), trial.seconds);
    study.add(trial);
    if (optuna) optuna->tell(trial);
    study.write_winners();
  }

  const Trial* const best = study.best();
  if (!best) {
    print_to(stderr, "modrun: none of the {} trials has values\n", study.trials().size());
    return 1;
  }
  if (search.objectives.size() == 1) {
    print_to(stdout, "the best is trial {}: {}, {}; modrun train {} trains it again\n", best->number,
             shown(best->settings), shown(*best, search.objectives), (search.dir / "best.toml").string());
    return 0;
  }
  for (const Trial* trial : study.pareto())
    print_to(stdout, "not beaten: trial {}: {}, {}\n", trial->number, shown(trial->settings),
             shown(*trial, search.objectives));
  print_to(stdout, "each is in {} as a config to train with\n", (search.dir / "pareto").string());
  return 0;
}

}  // namespace modular
