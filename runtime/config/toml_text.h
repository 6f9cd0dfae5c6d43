// TOML from outside, as text.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "runtime/files/open_file.h"

namespace modular {

/// The first line of a TOML text with more than 100 levels, which are the parts of keys and the tables and arrays
/// around a value; nothing where there is none. The TOML library recurses into each level and checks only some of them.
std::optional<int64_t> too_deep_line(std::string_view text);

/// The tables of a file. Throws ConfigError "file:line:column: …".
toml::table parse_toml_file(const std::filesystem::path& file, Links links = Links::none);

}  // namespace modular
