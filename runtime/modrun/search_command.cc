// `modrun search`: trains a config once per trial with other values, and reports the best.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>

#include "runtime/config/config_field.h"
#include "runtime/datasets/inferred_config.h"
#include "runtime/datasets/run_datasets.h"
#include "runtime/launch/launcher.h"
#include "runtime/launch/process.h"
#include "runtime/mesh/libraries.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/search/own_objective.h"
#include "runtime/search/python_backend.h"
#include "runtime/search/run_trials.h"
#include "runtime/search/trial_values.h"

namespace modular {
namespace {

struct SearchArguments : ConfigArguments {
  std::string resume;   // "yes" to continue the study; empty for no
  int64_t trials = 0;   // 0: from the config
  int64_t workers = 1;  // trials at a time
};

/// Options of the search do not apply to trials.
bool is_of_search(const std::string& setting) { return setting.starts_with("search."); }

TrainArguments of_trial(const SearchArguments& arguments, const TrialConfig& values,
                        const std::filesystem::path& folder) {
  TrainArguments trial{arguments};
  std::erase_if(trial.overrides, is_of_search);
  for (const auto& [key, value] : values) trial.overrides.push_back(key + "=" + value);
  trial.overrides.push_back("train.dir=" + folder.string());
  trial.resume = "auto";  // an interrupted trial continues
  return trial;
}

/// Why a trial with these values cannot start; empty if it can.
std::string find_error(const SearchArguments& arguments, const TrialConfig& values, const SearchConfig& search,
                       const Environment& env) {
  TrainArguments trial = of_trial(arguments, values, search.dir / "trials/none");
  trial.resume.clear();  // independent of any run's config or checkpoint
  try {
    prepare_train(trial, env);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Rejects a value, or an end of a range, with which no trial can start, neither with the config's own values nor with
/// those of a few trials.
void check_values(const SearchArguments& arguments, const SearchConfig& search, const Environment& env) {
  constexpr int64_t kTried = 16;
  for (const Dimension& dimension : search.space) {
    std::vector<std::string> values = dimension.choices;
    if (values.empty()) values = {dimension.at(0.0), dimension.at(1.0)};
    for (const std::string& value : values) {
      std::string error = find_error(arguments, {{dimension.key, value}}, search, env);
      for (int64_t number = 0; !error.empty() && number < std::min(kTried, search.trials); ++number) {
        TrialConfig values = make_trial_config(search, number);
        std::ranges::find(values, dimension.key, &std::pair<std::string, std::string>::first)->second = value;
        if (find_error(arguments, values, search, env).empty()) error.clear();
      }
      if (error.empty()) continue;
      if (error == find_error(arguments, {}, search, env)) throw ConfigError(error);  // for any value
      throw ConfigError(fmt::format("search.space has {} = {}: {}", dimension.key, value, error));
    }
  }
}

/// Rejects objectives that runs of this config do not have.
void check_objectives(const RunConfig& config, const std::vector<RunDataset>& sets, const SearchConfig& search) {
  std::vector<std::string> known(kRunObjectives.begin(), kRunObjectives.end());
  std::ranges::transform(own_objectives(), std::back_inserter(known), &OwnObjective::name);
  if (!search.objective_command.empty()) known.emplace_back(kCommandObjective);
  const size_t without_validation_set = known.size();
  if (std::ranges::any_of(sets, &RunDataset::has_validation)) {
    known.emplace_back("val_loss");
    std::ranges::transform(config.eval_metrics(), std::back_inserter(known), &Metric::name);
  }
  for (const Objective& objective : search.objectives)
    if (std::ranges::find(known, objective.name) == known.end())
      throw ConfigError(fmt::format("search.objective is {}, which no trial has{}: it may be {}", objective.name,
                                    known.size() == without_validation_set ? ", as there is no validation data" : "",
                                    fmt::join(known, ", ")));
}

/// Rejects a pruner that would have nothing to compare until a trial ends.
void check_pruner(const EvalSection& eval, const SearchConfig& search) {
  if (search.pruner.empty()) return;
  const std::string& objective = search.objectives.front().name;
  const bool is_own = std::ranges::find(own_objectives(), objective, &OwnObjective::name) != own_objectives().end();
  if (is_own || objective == kCommandObjective || std::ranges::find(kRunObjectives, objective) != kRunObjectives.end())
    throw ConfigError(
        fmt::format("search.pruner is \"{}\", and search.objective is {}, which is only known after a trial: set it to "
                    "val_loss or a metric, or leave the pruner out",
                    search.pruner, objective));
  if (eval.every <= 0)
    throw ConfigError(
        fmt::format("search.pruner is \"{}\", and eval.every {}: set it to a number of steps, after which "
                    "trials are compared",
                    search.pruner, eval.every));
}

/// CUDA_VISIBLE_DEVICES for each concurrent trial; empty on CPU, or for one trial at a time.
std::vector<std::string> list_gpus(const TrainSection& train, int64_t ranks, int64_t workers) {
  const int64_t gpus = workers > 1 && train.device != "cpu" ? gpu_count() : 0;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (gpus == 0) return {};
  return assign_gpus(gpus, visible ? visible : "", ranks, workers);
}

/// Gives each rank its share of the cores, and reports if there are more ranks than cores.
void share_cores(int64_t ranks, int64_t workers) {
  setenv("OMP_NUM_THREADS", std::to_string(threads_per_rank(ranks * workers)).c_str(), /*overwrite=*/0);
  if (const int64_t cores = threads_per_rank(1); workers > 1 && cores < ranks * workers)
    print_to(stdout, "{} concurrent trials of {} share {}: each takes longer than it would alone\n", workers,
             ranks == 1 ? "one rank" : fmt::format("{} ranks", ranks),
             cores == 1 ? "one core" : fmt::format("{} cores", cores));
}

/// Body of a trial's process: starts the ranks, and evaluates their run.
int run_trial(const LaunchOptions& options, const std::vector<std::string>& words, const SearchConfig& search,
              const Trial& trial, const std::filesystem::path& folder, std::string& answer) {
  if (const int status = launch_self(options, words); status != 0) return status;
  try {
    answer = format_answer(compute_trial_values(search, trial, folder));
  } catch (const Interrupted& interrupted) {
    return 128 + interrupted.signal;
  } catch (const std::exception& error) {
    answer = format_failure(error.what());
  }
  return 0;
}

int report_best(const SearchConfig& search, const Study& study) {
  const Trial* const best = study.best();
  if (!best) {
    print_to(stderr, "modrun: none of the {} trials succeeded\n", study.trials().size());
    return 1;
  }
  if (search.objectives.size() == 1) {
    print_to(stdout, "the best is trial {}: {}, {}; to train it again: modrun train {}\n", best->number,
             shown(best->settings), shown(*best, search.objectives), (search.dir / "best.toml").string());
    return 0;
  }
  for (const Trial* trial : study.pareto())
    print_to(stdout, "Pareto-optimal: trial {}: {}, {}\n", trial->number, shown(trial->settings),
             shown(*trial, search.objectives));
  print_to(stdout, "their configs are in {}\n", (search.dir / "pareto").string());
  return 0;
}

int run_search(const SearchArguments& arguments, const LaunchOptions& launch_options) {
  if (launch_options.nodes > 1) throw ConfigError("modrun search runs trials on this machine only: leave --nnodes out");
  if (std::getenv("RANK"))
    throw ConfigError("modrun search starts the ranks of its trials itself: run it once, without a launcher");
  std::vector<std::string> known;
  ConfigArguments plain = arguments;
  std::erase_if(plain.overrides, is_of_search);
  RunConfig config = read_run_config_for(plain);
  for (const auto& fields : {section_fields(config), model_fields(*config.network.config)})
    std::ranges::transform(fields, std::back_inserter(known), &ConfigField::path);
  SearchConfig search = read_search_config(
      arguments.config, arguments.overrides, known,
      is_run_folder(arguments) && !arguments.trust_folder ? ConfigSource::run_folder : ConfigSource::user);
  if (arguments.trials > 0 && (search.backend != "grid" || arguments.trials < search.trials))
    search.trials = arguments.trials;
  const int64_t ranks = launch_options.ranks_per_node, workers = arguments.workers;
  Environment env{.world_size = ranks, .local_world_size = ranks};
  check_values(arguments, search, env);
  std::vector<RunDataset> sets = find_data_sets(config);
  if (needs_sentence_loss(config)) open_datasets(config, sets);
  choose_sentence_loss(config, sets);
  check_objectives(config, sets, search);
  check_pruner(config.eval, search);
  const std::vector<std::string> gpus = list_gpus(config.train, ranks, workers);

  check_study_folder(search, !arguments.resume.empty());  // before starting Python
  std::optional<PythonBackend> backend;
  if (search.backend == "optuna" || search.backend == "ray") backend.emplace(search);
  config.train.dir.clear();
  Study study(search, format_toml(config), !arguments.resume.empty(), program_options(config));
  if (backend) backend->open(study.trials(), workers);
  at::set_num_threads(1);                            // trials are forked, and signals go to the only thread
  setenv("MODULAR_LAUNCHED", "1", /*overwrite=*/1);  // a job's checks are done here
  share_cores(ranks, workers);
  env.local_world_size *= workers;  // they share this machine's memory
  const StartTrial start = [&](const Trial& trial, int64_t at) {
    const auto folder = study.run_folder(trial.number);
    const TrainArguments of_this = of_trial(arguments, trial.settings, folder);
    prepare_train(of_this, env).before_ranks();
    LaunchOptions options = launch_options;
    options.quiet = true;
    options.log_folder = (folder / "logs").string();
    std::filesystem::create_directories(options.log_folder);
    std::vector<std::string> words = config_words("train", of_this);
    words.emplace_back("--resume=auto");
    return std::make_unique<BackgroundTask>(folder / "logs/launcher.log", [=, &search, &gpus](std::string& answer) {
      if (!gpus.empty()) setenv("CUDA_VISIBLE_DEVICES", gpus[static_cast<size_t>(at)].c_str(), /*overwrite=*/1);
      return run_trial(options, words, search, trial, folder, answer);
    });
  };
  const int status = run_trials(search, study, backend ? &*backend : nullptr, workers, start);
  return status == 0 ? report_best(search, study) : status;
}

}  // namespace

ParsedCommand declare_search(CLI::App& app) {
  const auto arguments = std::make_shared<SearchArguments>();
  app.add_option("CONFIG,-c,--config", arguments->config, "TOML file with [search] and [search.space]")->required();
  add_setting_option(app, *arguments, "KEY=VALUE: a config value of all trials, or of the search: search.seed=2");
  add_trust_option(app, *arguments);
  add_mesh_options(app, *arguments);
  app.add_option("--trials", arguments->trials, "maximum number of trials; default: search.trials")
      ->check(above_zero());
  app.add_option("--workers", arguments->workers,
                 "concurrent trials on this machine, each a job of --nproc-per-node ranks; they share cores and "
                 "memory, and each has its own GPUs")
      ->check(above_zero())
      ->capture_default_str();
  app.add_flag("--resume{yes}", arguments->resume, "continue the study in search.dir");
  return LocalCommand([arguments](const LaunchOptions& launch, int64_t) { return run_search(*arguments, launch); });
}

}  // namespace modular
