// Optuna as what draws the values of trials, in a Python process that runs optuna_helper.py.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/launch/python_helper.h"
#include "runtime/search/study.h"

namespace modular {

class Optuna {
 public:
  /// Throws ConfigError where Python or Optuna is not there.
  explicit Optuna(const SearchConfig& config);

  /// Opens the study in config.storage, or begins it, and tells it of trials that have ended since. Throws ConfigError
  /// where the storage is not there, or Optuna does not take what is searched. Called once, before the others.
  void open(const std::vector<Trial>& ended);

  /// The number and the settings of the next trial: first those that were being tried when a search was killed. Throws
  /// std::runtime_error where the helper has died, as tell() does.
  std::pair<int64_t, TrialSettings> next();

  /// Tells what a trial of next() has found after `step`, and returns whether it is worth no further step.
  bool is_hopeless(int64_t trial, int64_t step, double value);

  /// A trial of next() that has ended.
  void tell(const Trial& trial);

 private:
  const SearchConfig config_;
  PythonHelper helper_;
};

}  // namespace modular
