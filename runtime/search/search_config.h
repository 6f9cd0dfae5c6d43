// What a search tries and how it judges, as [search] of a config file says.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/search/space.h"
#include "runtime/train/config.h"

namespace modular {

struct Objective {
  std::string name;  // "val_loss", a metric of eval.metrics, a number of the run's end, e.g. "memory_peak", one of
                     // this program's own (own_objective.h), or kCommandObjective
  bool minimize = true;
};

struct SearchConfig {
  std::string backend = "random";  // "grid", "optuna" or "ray"
  std::string sampler = "tpe";     // of optuna and ray
  std::string pruner;              // of optuna: "median" or "hyperband", of ray: "median" or "asha"; none when empty
  std::string storage;             // of optuna, as SQLAlchemy names it; study.db in `dir` when empty
  std::string study;               // of optuna: the study in `storage` that other machines are in too; empty: own
  std::string python = "python3";  // that has the package optuna or ray
  int64_t trials = 0;              // at most; 0: all of a grid, 20 of others, which is filled in
  uint64_t seed = 1;
  std::filesystem::path dir = "runs/search";  // of the study
  std::vector<Objective> objectives;
  std::string objective_command;  // whose last line is the objective kCommandObjective; empty: none
  std::vector<Dimension> space;   // by key
};

/// Reads [search] of `file`, then those of `settings` ("a.b=c") that begin with "search.". Throws ConfigError with the
/// place where it is missing, or what it says cannot be, and where a file of a run's folder names a
/// program, a database or the study's folder. `known` are the keys that a run has.
SearchConfig read_search_config(const std::filesystem::path& file, const std::vector<std::string>& settings,
                                const std::vector<std::string>& known, ConfigSource source = ConfigSource::user);

/// What an objective may be beside the metrics: of the run's end.
inline constexpr std::array<std::string_view, 4> kRunObjectives = {"samples_per_second", "tokens_per_second",
                                                                   "memory_peak", "seconds"};

/// Of a study. Trials of several objectives are compared pair by pair.
constexpr int64_t most_trials(size_t objectives) { return objectives > 1 ? 10'000 : 100'000; }

/// The objective that search.objective_command prints.
inline constexpr const char* kCommandObjective = "command";

/// What must be the same for a study to continue: backend, seed, objectives and space, as JSON.
std::string to_identity(const SearchConfig& config);

/// The config whose identity this is, with the rest at its defaults. Throws nlohmann::json::exception where it is none.
SearchConfig searched(const std::string& identity);

}  // namespace modular
