// The trials of a search and what they found, kept in a folder so that an interrupted search continues.
//
//   <dir>/trials.jsonl     what is searched, then a line for each trial in the order in which they have ended
//   <dir>/trials/0003/     the run of trial 3, as modrun train leaves it
//   <dir>/best.toml        the config of the best trial, with a folder of its own; trains as it stands
//   <dir>/pareto/0003.toml of several objectives: each trial that no other one beats in all of them
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "runtime/search/search_config.h"
#include "runtime/train/folder_lock.h"

namespace modular {

struct Trial {
  int64_t number = 0;
  TrialConfig settings;
  std::string failure;         // why it has no values; empty where it has
  bool pruned = false;         // that it has none as it was not worth continuing with
  std::vector<double> values;  // of the objectives
  double seconds = 0.0;
};

/// Whether one of two values is better.
bool is_better(double value, double other, const Objective& objective);

/// The best by the first objective, of several the one with the lowest number; null where none has values.
const Trial* best_trial(const std::vector<Trial>& trials, const std::vector<Objective>& objectives);
/// Those that no other one beats: none is at least as good in all objectives and better in one.
std::vector<const Trial*> pareto_front(const std::vector<Trial>& trials, const std::vector<Objective>& objectives);

/// What a study has found so far, as trials.jsonl in its folder says.
struct StudyRecord {
  SearchConfig config;  // backend, sampler, seed, objectives and space; the rest is at its defaults
  std::vector<Trial> trials;
};

/// Reads it without holding the folder: the search may go on meanwhile, and a last line that is cut off is left out.
/// Throws ConfigError with file:line where a line is none of a study.
StudyRecord read_study(const std::filesystem::path& folder);

/// Throws ConfigError where the study in config.dir cannot be begun, or with `resumes` continued, as the folder holds
/// another or none. Changes nothing: for a look before anything is started for the study.
void check_study_folder(const SearchConfig& config, bool resumes);

class Study {
 public:
  /// Begins the study in config.dir, or continues with it, and holds the folder for this process. `base` are the
  /// settings of all trials, as text, and `programs` those of them that program_options() has. Throws ConfigError where
  /// there is one and `resumes` is false, where there is none to resume, where it is one of another space, seed,
  /// objective or base, or where it is damaged but for a last line that was cut off; std::runtime_error where another
  /// process holds the folder.
  Study(const SearchConfig& config, const std::string& base, bool resumes, std::vector<std::string> programs = {});

  const std::vector<Trial>& trials() const { return trials_; }
  std::filesystem::path run_folder(int64_t trial) const;

  /// Adds a trial that has ended.
  void add(Trial trial);

  const Trial* best() const { return best_trial(trials_, config_.objectives); }
  std::vector<const Trial*> pareto() const { return pareto_front(trials_, config_.objectives); }

  /// Writes best.toml, or pareto/*.toml where there are several objectives, from the runs' config.toml.
  void write_winners() const;

 private:
  const SearchConfig config_;
  const std::vector<std::string> programs_;
  std::optional<FolderLock> lock_;
  std::vector<Trial> trials_;
  std::ofstream out_;
};

}  // namespace modular
