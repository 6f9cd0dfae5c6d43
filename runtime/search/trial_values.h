// What the objectives say of a trial.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/search/search_config.h"
#include "runtime/search/study.h"

namespace modular {

/// The values of config.objectives for a trial whose run in `folder` has ended well: from its metrics.jsonl, of the
/// last evaluation or over all parts of a run that was interrupted; from this program's own functions; and from
/// config.objective_command, which is run with MODULAR_TRIAL_DIR and MODULAR_TRIAL. Throws std::runtime_error in one
/// sentence where one is missing or no finite number, or the command fails; Interrupted where a signal asked to end
/// meanwhile.
std::vector<double> values_of_trial(const SearchConfig& config, const Trial& trial,
                                    const std::filesystem::path& folder);

/// By which signal.
struct Interrupted {
  int signal = 0;
};

}  // namespace modular
