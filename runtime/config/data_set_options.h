// The settings of data.sets.
#pragma once

#include <toml++/toml.h>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/config.h"

namespace modular {

/// Assigns what follows "data.sets." in a key: "NAME.paths", or "NAME" where the table is empty. Sets are kept in the
/// order of their names. Returns what is wrong with it in a sentence, or nothing.
std::string assign_set(std::vector<SetOptions>& sets, std::string_view key, const toml::node& value);

}  // namespace modular
