// Checks of config values against each other.
#pragma once

#include "runtime/config/config.h"
#include "runtime/config/config_errors.h"

namespace modular {

/// Adds every invalid value, and every contradiction between values, to `problems`. Changes nothing.
void validate(const RunConfig& config, Problems& problems);

/// Throws ConfigError if the command line sets a key that the chosen optimizer does not read. Files may hold keys of
/// several optimizers: a run's config.toml holds all of them.
void check_optimizer_options(RunConfig& config);

}  // namespace modular
