// Config fields as JSON.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/model/config.h"

namespace modular {

// Config fields as JSON, with the conversions that config.json files of all releases need.

/// Rewrites the numbers that Python writes and JSON lacks (Infinity, -Infinity and NaN) as transformers 5 writes them:
/// {"__float__": "Infinity"}.
std::string with_named_special_floats(std::string_view text);

/// Parses the text of a config.json, with these numbers; returns a discarded value under the conditions of
/// parse_json().
nlohmann::json parse_config_json(std::string_view text);

/// Text of a folder's config.json, or of another config file. Throws ConfigError if it cannot be read or exceeds 16
/// MiB.
std::string read_config_text(const std::filesystem::path& path);

/// Sets the fields of `config` from `object` and removes them from `object`; keys that remain match no field. null
/// means "not given", and so does "auto" for a number. RoPE parameters may be given as `rope_parameters`, or as
/// `rope_theta` and `rope_scaling` (which wins). Errors begin with `where`. Throws ConfigError naming the key, its
/// value and the fix.
void take_fields(AnyConfig& config, nlohmann::json& object, const std::string& where);

/// Every field of `config` under its name, as transformers 5 writes it.
nlohmann::json fields_as_json(AnyConfig& config);

// Checks of config values that apply to every family, in addition to a family's own finish().

/// Checks every number, fills the fields that are derived from others (AnyConfig::finish), and computes the RoPE
/// frequencies once, so that an error shows here and not when the model is built. Errors begin with `where`. Throws
/// ConfigError naming the key, its value and the fix.
void finish_config(AnyConfig& config, const std::string& where);

}  // namespace modular
