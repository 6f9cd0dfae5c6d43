// Computes the objectives of a trial.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/search/search_config.h"
#include "runtime/search/study.h"

namespace modular {

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
