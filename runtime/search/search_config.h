// The [search] section of a config file.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/search/space.h"

namespace modular {

struct Objective {
  std::string name;  // "held_out_loss", a metric of eval.metrics, a number of the run's end event, e.g.
                     // "memory_peak", an objective of this program (own_objective.h), or kCommandObjective
  bool minimize = true;
};

struct SearchConfig {
  std::string backend = "random";  // "grid", "optuna" or "ray"
  std::string sampler = "tpe";     // for optuna and ray
  std::string pruner;              // optuna: "median" or "hyperband", ray: "median" or "asha"; empty for none
  std::string storage;             // optuna: SQLAlchemy URL; if empty, study.db in `dir`
  std::string study;               // optuna: the study in `storage` shared with other machines; if empty, not shared
  std::string python = "python3";  // Python with the package optuna or ray
  int64_t trials = 0;              // maximum; 0 is replaced by the size of a grid, or 20 for other backends
  uint64_t seed = 1;
  std::filesystem::path dir = "runs/search";  // folder of the study
  std::vector<Objective> objectives;
  std::string objective_command;  // prints the objective kCommandObjective as its last line; empty for none
  std::vector<Dimension> space;   // sorted by key
};

/// Reads [search] of `file`, then applies the `settings` ("a.b=c") that start with "search.". Throws ConfigError with
/// the location if [search] is missing or invalid, or if a config from a run's folder names a program, a database or
/// the study's folder. `known` are the config keys of a run.
SearchConfig read_search_config(const std::filesystem::path& file, const std::vector<std::string>& settings,
                                const std::vector<std::string>& known, ConfigSource source = ConfigSource::user);

/// Objectives from the run's end event, in addition to the metrics.
inline constexpr std::array<std::string_view, 4> kRunObjectives = {"samples_per_second", "tokens_per_second",
                                                                   "memory_peak", "seconds"};

/// Maximum number of trials of a study. Trials with several objectives are compared pairwise.
constexpr int64_t most_trials(size_t objectives) { return objectives > 1 ? 10'000 : 100'000; }

/// The objective that search.objective_command prints.
inline constexpr const char* kCommandObjective = "command";

/// Serializes what must not change when a study is resumed: backend, seed, objectives and space, as JSON.
std::string to_identity(const SearchConfig& config);

/// Inverse of to_identity(); other fields have their defaults. Throws nlohmann::json::exception if `identity` is
/// invalid.
SearchConfig config_from_identity(const std::string& identity);

}  // namespace modular
