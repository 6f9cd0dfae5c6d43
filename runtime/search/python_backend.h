// Optuna, or Ray Tune, as what draws the values of trials: in a Python process that runs optuna_helper.py or
// ray_helper.py.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/launch/python_helper.h"
#include "runtime/search/study.h"

namespace modular {

class PythonBackend {
 public:
  /// Starts the helper of config.backend. Throws ConfigError where Python, the package or the sampler is not
  /// there.
  explicit PythonBackend(const SearchConfig& config);

  /// Opens the study, or begins it, for so many trials at a time, and tells it of trials that have ended since. Throws
  /// ConfigError where the storage is not there, or the backend does not take what is searched. Called once, before the
  /// others, which throw std::runtime_error where the helper has died.
  void open(const std::vector<Trial>& ended, int64_t workers);

  /// The number and the settings of the next trial: first those that were being tried when a search was killed.
  std::pair<int64_t, TrialConfig> next();

  /// Tells what a trial of next() that runs has found after `step`, and returns whether it is worth no further step.
  bool is_hopeless(int64_t trial, int64_t step, double value);

  /// A trial of next() that has ended.
  void tell(const Trial& trial);

 private:
  nlohmann::json ask(const nlohmann::json& question);

  const SearchConfig config_;
  PythonHelper helper_;
};

}  // namespace modular
