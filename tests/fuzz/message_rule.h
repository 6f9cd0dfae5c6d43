// The rule for error messages.
#pragma once

#include <exception>
#include <span>
#include <string>
#include <string_view>

namespace modular::fuzz {

/// Returns why a program could not print this exception as an error about its file, or an empty string. It must be a
/// ConfigError, a DataError or a plain std::runtime_error with one sentence that contains one of `locations`, and not
/// only a library's own words.
std::string broken_rule(const std::exception& error, std::span<const std::string_view> locations);

/// The message without what differs from input to input: numbers and quoted texts.
std::string kind_of_message(std::string_view message);

}  // namespace modular::fuzz
