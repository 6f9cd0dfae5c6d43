// Small configs of an entry, derived from its config struct.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checks/execute/batches.h"

namespace modular::execute {

struct SmallConfig {
  std::string name;                   // how it differs from the defaults, apart from sizes
  std::unique_ptr<AnyConfig> config;  // finished
  BatchOptions batch;
};

/// Returns a few configs. The first has the defaults of the config struct with sizes reduced as far as the model stays
/// the same but for them: the same classes at the same places, and every count that the plan splits divisible by 4. The
/// others switch every bool, set every optional field that has no default, clear every one that has, and give strings
/// another value that the file compares with, where the model accepts it. Throws std::runtime_error with the model's
/// message if no config can be found that runs.
std::vector<SmallConfig> small_configs(const Entry& entry);

}  // namespace modular::execute
