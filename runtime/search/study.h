// A study: the trials of a search and their results, stored in a folder so that an interrupted search can resume.
//
//   <dir>/trials.jsonl     a header that describes the search, then one line per trial in the order of completion
//   <dir>/trials/0003/     the run folder of trial 3, as modrun train leaves it
//   <dir>/best.toml        the config of the best trial, with its own train.dir; ready to train
//   <dir>/pareto/0003.toml with several objectives: configs of the trials on the Pareto front
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
  std::string failure;         // reason why there are no values; empty if there are
  bool pruned = false;         // whether the trial has no values because it was pruned
  std::vector<double> values;  // one per objective
  double seconds = 0.0;
};

/// Whether `value` is better than `other`.
bool is_better(double value, double other, const Objective& objective);

/// Returns the best trial by the first objective; ties go to the lowest number. Null if no trial has values.
const Trial* best_trial(const std::vector<Trial>& trials, const std::vector<Objective>& objectives);
/// Returns the trials that no other trial dominates: is at least as good in all objectives and better in one.
std::vector<const Trial*> pareto_front(const std::vector<Trial>& trials, const std::vector<Objective>& objectives);

/// Contents of a study's trials.jsonl.
struct StudyRecord {
  SearchConfig config;  // backend, sampler, seed, objectives and space; other fields have defaults
  std::vector<Trial> trials;
};

/// Reads a study without locking its folder: a search may be running, and an incomplete last line is ignored. Throws
/// ConfigError with file:line if a line is invalid.
StudyRecord read_study(const std::filesystem::path& folder);

/// Throws ConfigError if the study in config.dir cannot be created or, with `resumes`, resumed, because the folder
/// holds another study or none. Changes nothing: call it before starting anything for the study.
void check_study_folder(const SearchConfig& config, bool resumes);

class Study {
 public:
  /// Creates or resumes the study in config.dir and locks the folder. `base` is the config of all trials as text, and
  /// `programs` are its options that program_options() lists. Throws ConfigError if a study exists and `resumes` is
  /// false, if none exists to resume, if its space, seed, objective or base differ, or if it is damaged (an incomplete
  /// last line is ignored). Throws std::runtime_error if another process holds the folder.
  Study(const SearchConfig& config, const std::string& base, bool resumes, std::vector<std::string> programs = {});

  const std::vector<Trial>& trials() const { return trials_; }
  std::filesystem::path run_folder(int64_t trial) const;

  /// Records a trial that has ended.
  void add(Trial trial);

  const Trial* best() const { return best_trial(trials_, config_.objectives); }
  std::vector<const Trial*> pareto() const { return pareto_front(trials_, config_.objectives); }

  /// Writes best.toml, or pareto/*.toml for several objectives, from the runs' config.toml.
  void write_winners() const;

 private:
  const SearchConfig config_;
  const std::vector<std::string> programs_;
  std::optional<FolderLock> lock_;
  std::vector<Trial> trials_;
  std::ofstream out_;
};

}  // namespace modular
