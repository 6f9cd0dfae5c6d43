// The keys of data.sets.
#pragma once

#include <toml++/toml.h>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/config.h"

namespace modular {

/// Assigns the key that follows "data.sets.": "NAME.paths", or "NAME" for an empty table. Keeps the sets sorted by
/// name. Returns an error message, or an empty string.
std::string assign_set(std::vector<SetOptions>& sets, std::string_view key, const toml::node& value);

}  // namespace modular
