// The fields of a config as JSON, with the conversions that config.json files of all ages need.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/model/config.h"

namespace modular {

/// JSON with the numbers that Python writes and JSON has not, Infinity, -Infinity and NaN, as transformers 5 writes
/// them:
/// {"__float__": "Infinity"}.
std::string with_named_special_floats(std::string_view text);

/// The value that the text of a config.json holds, with these numbers; a discarded one as parse_json() has it.
nlohmann::json parse_config_json(std::string_view text);

/// The text of a folder's config.json, or of another file with settings. Throws ConfigError if it cannot be read or
/// exceeds 16 MiB.
std::string read_config_text(const std::filesystem::path& path);

/// Sets the fields of `config` that `object` has, and takes them out of `object`: what remains no field has. null means
/// "not given", and so does "auto" for a number. Rotary settings may be `rope_parameters`, or `rope_theta` and
/// `rope_scaling` (which wins). `where` begins each error. Throws ConfigError naming the key, its value and what to
/// write.
void take_fields(AnyConfig& config, nlohmann::json& object, const std::string& where);

/// Every field of `config` under its name, as transformers 5 writes it.
nlohmann::json fields_as_json(AnyConfig& config);

}  // namespace modular
