// JSON from untrusted files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace modular {

/// Parses `text`. Returns a discarded value if it is not JSON, nests so deeply that recursive code would overflow the
/// stack, or has so many values that it would take far more memory than its bytes.
nlohmann::json parse_json(std::string_view text);

/// Whether the text is valid UTF-8, as text files require.
bool is_utf8(const std::string& text);

/// The value as shown in messages: cut after 60 bytes, with invalid UTF-8 replaced.
std::string shown(const nlohmann::json& value);

/// Returns why parse_json() discards a text.
std::string json_problem(std::string_view text);

/// The library's error message, without the library's name for the error.
std::string json_problem(const nlohmann::json::exception& error);

}  // namespace modular
