// Samples the values of trials with Optuna or Ray Tune, in a Python process that runs optuna_helper.py or
// ray_helper.py.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/launch/helper.h"
#include "runtime/search/study.h"

namespace modular {

class PythonBackend {
 public:
  /// Starts the helper of config.backend. Throws ConfigError if Python, the package or the sampler is missing.
  explicit PythonBackend(const SearchConfig& config);

  /// Opens or creates the study for `workers` concurrent trials, and reports trials that have ended since. Throws
  /// ConfigError if the storage is missing or the backend does not support the search. Must be called once, before the
  /// other functions, which throw std::runtime_error if the helper has died.
  void open(const std::vector<Trial>& ended, int64_t workers);

  /// Returns the number and the settings of the next trial. Trials that were running when the search was killed come
  /// first.
  std::pair<int64_t, TrialConfig> next();

  /// Reports the value of a running trial after `step`, and returns whether to prune it.
  bool should_prune(int64_t trial, int64_t step, double value);

  /// Reports a trial that has ended.
  void tell(const Trial& trial);

 private:
  nlohmann::json ask(const nlohmann::json& question);

  const SearchConfig config_;
  PythonHelper helper_;
};

}  // namespace modular
