// What every family's settings must be, whatever else its own finish() checks.
#pragma once

#include <string>

#include "runtime/model/config.h"

namespace modular {

/// Checks every number, fills what follows from other fields (AnyConfig::finish), and computes rotary frequencies once,
/// so that a mistake shows here and not when the model is built. `where` begins each error. Throws ConfigError naming
/// the key, its value and what to write.
void finish_config(AnyConfig& config, const std::string& where);

}  // namespace modular
