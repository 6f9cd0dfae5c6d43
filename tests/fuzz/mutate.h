// Makes damaged inputs of valid ones.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "tests/fuzz/random.h"

namespace modular::fuzz {

/// `text` with a few changes of its bytes, words, numbers and lines, in a syntax that is not known. `words` are put in
/// beside those that it has.
std::string mutated_text(std::string text, std::span<const std::string_view> words, Random& random);

/// A value with a few changes of its structure: types, keys, numbers, sizes, depth. `keys` are added beside those that
/// it has.
nlohmann::json mutated_json(nlohmann::json value, std::span<const std::string_view> keys, Random& random);

/// The value as text, of which some have a key twice, numbers that JSON has not, or changes as of mutated_text.
std::string mutated_json_text(const nlohmann::json& value, std::span<const std::string_view> keys, Random& random);

/// A number on a limit that readers may have, as text.
std::string_view number_at_limit(Random& random);

}  // namespace modular::fuzz
