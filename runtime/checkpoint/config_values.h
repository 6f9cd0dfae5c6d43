// Checks of config values that apply to every family, in addition to a family's own finish().
#pragma once

#include <string>

#include "runtime/model/config.h"

namespace modular {

/// Checks every number, fills the fields that are derived from others (AnyConfig::finish), and computes the RoPE
/// frequencies once, so that an error shows here and not when the model is built. Errors begin with `where`. Throws
/// ConfigError naming the key, its value and the fix.
void finish_config(AnyConfig& config, const std::string& where);

}  // namespace modular
