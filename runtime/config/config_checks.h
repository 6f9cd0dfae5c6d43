// Checks of config values against each other.
#pragma once

#include "runtime/config/config.h"

namespace modular {

/// Throws ConfigError if a value is invalid, or if values contradict each other.
void check_together(const RunConfig& config);

/// Throws ConfigError if the command line sets a key that the chosen optimizer does not read. Files may hold keys of
/// several optimizers: a run's config.toml holds all of them.
void check_optimizer_options(RunConfig& config);

}  // namespace modular
