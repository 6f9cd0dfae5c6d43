// `modrun search`: trains a config once for each trial with other settings, and says which were the best.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <tuple>

#include "runtime/launch/launcher.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/search/optuna.h"
#include "runtime/search/pruning.h"
#include "runtime/train/config_field.h"
#include "runtime/train/data_sets.h"
#include "runtime/train/sentence_data.h"

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

/// Why a trial of these settings cannot begin, or nothing.
std::string refusal_of(const Arguments& arguments, const TrialSettings& settings, const SearchConfig& search,
                       const Environment& place) {
  Arguments trial = of_trial(arguments, settings, search.dir / "trials/none");
  trial.resume.clear();  // of no run's settings or checkpoint
  try {
    prepare_train(trial, place);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Settings of trials that are tried before they begin: those of a grid, or such as are drawn.
TrialSettings settings_of(const SearchConfig& search, int64_t number) {
  return search.backend == "grid" ? grid_point(search.space, number) : draw(search.space, search.seed, number);
}

/// Refuses a value, or an end of a range, with which no trial can begin: neither beside the config's own settings nor
/// beside those of a few trials.
void check_values(const Arguments& arguments, const SearchConfig& search, const Environment& place) {
  constexpr int64_t kTried = 16;
  for (const Dimension& dimension : search.space) {
    std::vector<std::string> values = dimension.choices;
    if (values.empty()) values = {dimension.at(0.0), dimension.at(1.0)};
    for (const std::string& value : values) {
      std::string refusal = refusal_of(arguments, {{dimension.key, value}}, search, place);
      for (int64_t number = 0; !refusal.empty() && number < std::min(kTried, search.trials); ++number) {
        TrialSettings settings = settings_of(search, number);
        std::ranges::find(settings, dimension.key, &std::pair<std::string, std::string>::first)->second = value;
        if (refusal_of(arguments, settings, search, place).empty()) refusal.clear();
      }
      if (refusal.empty()) continue;
      if (refusal == refusal_of(arguments, {}, search, place)) throw ConfigError(refusal);  // whatever is tried
      throw ConfigError(fmt::format("search.space has {} = {}: {}", dimension.key, value, refusal));
    }
  }
}

/// Refuses objectives that no run of the config has.
void check_objectives(const RunConfig& config, const std::vector<DataSet>& sets, const SearchConfig& search) {
  std::vector<std::string> known(kRunObjectives.begin(), kRunObjectives.end());
  if (std::ranges::any_of(sets, &DataSet::holds_out)) {
    known.emplace_back("held_out_loss");
    std::ranges::transform(config.eval_metrics(), std::back_inserter(known), &Metric::name);
  }
  for (const Objective& objective : search.objectives)
    if (std::ranges::find(known, objective.name) == known.end())
      throw ConfigError(fmt::format("search.objective is {}, which no trial has{}: it may be {}", objective.name,
                                    known.size() == kRunObjectives.size() ? ", as no file is held out" : "",
                                    fmt::join(known, ", ")));
}

/// Refuses a pruner that would have nothing to compare before a trial ends.
void check_pruner(const RunConfig& config, const SearchConfig& search) {
  if (search.pruner.empty()) return;
  const std::string& objective = search.objectives.front().name;
  if (std::ranges::find(kRunObjectives, objective) != kRunObjectives.end())
    throw ConfigError(fmt::format(
        "search.pruner is \"{}\", and search.objective is {}, which is known when a trial has ended: set it "
        "to held_out_loss or a metric, or leave the pruner out",
        search.pruner, objective));
  if (config.eval.every <= 0)
    throw ConfigError(
        fmt::format("search.pruner is \"{}\", and eval.every {}: set it to a number of steps, after which "
                    "trials are compared",
                    search.pruner, config.eval.every));
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
  if (std::getenv("RANK"))
    throw ConfigError("modrun search starts the ranks of its trials itself: run it once, and not under a launcher");
  std::vector<std::string> known;
  Arguments plain = arguments;
  std::erase_if(plain.settings, is_of_search);
  RunConfig config = read_config_of(plain);
  for (const auto& fields : {section_fields(config), model_fields(*config.network.config)})
    std::ranges::transform(fields, std::back_inserter(known), &ConfigField::path);
  SearchConfig search = read_search_config(arguments.config, arguments.settings, known);
  if (arguments.trials > 0 && (search.backend != "grid" || arguments.trials < search.trials))
    search.trials = arguments.trials;
  const Environment place{.world_size = launch_options.ranks_per_node,
                          .local_world_size = launch_options.ranks_per_node};
  check_values(arguments, search, place);
  std::vector<DataSet> sets = find_data_sets(config);
  choose_sentence_loss(config, sets);
  check_objectives(config, sets, search);
  check_pruner(config, search);

  std::optional<Optuna> optuna;
  if (search.backend == "optuna") optuna.emplace(search);
  config.train.dir.clear();
  Study study(search, format_toml(config), !arguments.resume.empty());
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
      trial.settings = settings_of(search, count);
    const auto folder = study.run_folder(trial.number);
    const auto begin = Clock::now();
    options.log_folder = (folder / "logs").string();
    print_to(stdout, "trial {} ({} of {})  {}\n", trial.number, count + 1, search.trials, shown(trial.settings));
    try {
      const Arguments of_this = of_trial(arguments, trial.settings, folder);
      prepare_train(of_this, place).before_ranks();
      std::vector<std::string> words = words_of("train", of_this);
      words.emplace_back("--resume=auto");
      Pruning pruning(folder, search.objectives.front(),
                      [&](int64_t step, double value) { return optuna->is_hopeless(trial.number, step, value); });
      if (!search.pruner.empty()) options.is_enough = [&] { return pruning.look(); };
      const int status = launch_self(options, words);
      options.is_enough = nullptr;
      if (trial.pruned = status == 128 + SIGTERM && !pruning.reason().empty(); trial.pruned)
        throw std::runtime_error(pruning.reason());
      const bool is_interrupted = status == 128 + SIGINT || status == 128 + SIGTERM || status == 128 + SIGHUP;
      if (is_interrupted) {
        print_to(stdout, "the search was interrupted: modrun search --resume goes on with this trial\n");
        return status;
      }
      if (status != 0)
        throw std::runtime_error(
            fmt::format("its run failed with status {}, see {}", status, (folder / "logs").string()));
      trial.values = values_of_run(folder, search.objectives);
    } catch (const std::exception& error) {
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
