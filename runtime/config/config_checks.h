// What is wrong with settings that no single one shows.
#pragma once

#include "runtime/config/config.h"

namespace modular {

/// Throws ConfigError where settings are none that a run can have, or do not go together.
void check_together(const RunConfig& config);

/// Throws ConfigError where a setting of the command line is one that the optimizer does not read. A file may have
/// those of several: a run's config.toml has all.
void check_optimizer_settings(RunConfig& config);

}  // namespace modular
