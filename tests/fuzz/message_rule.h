// What a error has to be.
#pragma once

#include <exception>
#include <span>
#include <string>
#include <string_view>

namespace modular::fuzz {

/// Says why a program could not print this error as its error of a file, or nothing: it has to be a ConfigError, a
/// DataError or a std::runtime_error itself, of one sentence that holds one of `places`, and no library's own words
/// alone.
std::string broken_rule(const std::exception& error, std::span<const std::string_view> places);

/// The message without what differs from input to input: numbers and quoted texts.
std::string kind_of_message(std::string_view message);

}  // namespace modular::fuzz
