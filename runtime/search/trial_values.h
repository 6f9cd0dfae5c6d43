// Objectives of a trial, and pruning of running trials.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/search/search_config.h"
#include "runtime/search/study.h"

namespace modular {

// Pruning of running trials.

/// Follows the evaluations of a run as it writes them.
class Pruning {
 public:
  /// `should_prune(step, value)` is called once per evaluation of the run with a finite objective.
  Pruning(std::filesystem::path run, Objective objective, std::function<bool(int64_t step, double value)> should_prune);

  /// Reads new evaluations; returns whether any evaluation so far was pruned.
  bool check();

  /// Reason for pruning, e.g. "pruned after step 40, with val_loss 2.31"; empty if the run was not pruned.
  const std::string& reason() const { return reason_; }

 private:
  std::filesystem::path metrics_;
  Objective objective_;
  std::function<bool(int64_t step, double value)> should_prune_;
  uintmax_t bytes_ = 0;  // size of the file when it was last read
  size_t seen_ = 0;
  std::string reason_;
};

// Computes the objectives of a trial.

/// Returns the values of config.objectives for a trial whose run in `folder` succeeded. Sources are metrics.jsonl (the
/// last evaluation, or totals over all parts of an interrupted run), this program's own functions, and
/// config.objective_command, which runs with MODULAR_TRIAL_DIR and MODULAR_TRIAL set. Throws std::runtime_error if a
/// value is missing or not finite, or the command fails; Interrupted if a signal requested termination.
std::vector<double> compute_trial_values(const SearchConfig& config, const Trial& trial,
                                         const std::filesystem::path& folder);

/// Thrown with the signal that requested termination.
struct Interrupted {
  int signal = 0;
};

}  // namespace modular
