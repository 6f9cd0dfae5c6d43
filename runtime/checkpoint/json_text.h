// JSON that comes from outside.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace modular {

/// The value that `text` holds; a discarded one where it is not JSON, nests so deeply that those who traverse it would
/// run out of stack, or has so many values that it would take far more memory than its bytes.
nlohmann::json parse_json(std::string_view text);

/// Whether files of text can hold it.
bool is_utf8(const std::string& text);

/// The value as a message shows it: what is longer than 60 bytes is cut, and what is no UTF-8 replaced.
std::string shown(const nlohmann::json& value);

/// What is wrong with a text that parse_json discards.
std::string json_problem(std::string_view text);

/// What the library says of an error, without its name for it.
std::string json_problem(const nlohmann::json::exception& error);

}  // namespace modular
