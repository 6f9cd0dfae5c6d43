// Makes damaged inputs from valid ones.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "tests/fuzz/random.h"

namespace modular::fuzz {

/// `text` with a few changes of its bytes, words, numbers and lines, without knowledge of its syntax. `words` are
/// inserted in addition to its own.
std::string mutated_text(std::string text, std::span<const std::string_view> words, Random& random);

/// A value with a few changes of its structure: types, keys, numbers, sizes, depth. `keys` are inserted in addition to
/// its own.
nlohmann::json mutated_json(nlohmann::json value, std::span<const std::string_view> keys, Random& random);

/// The value as text; sometimes with a duplicate key, numbers that JSON does not have, or changes as in mutated_text().
std::string mutated_json_text(const nlohmann::json& value, std::span<const std::string_view> keys, Random& random);

/// A number at a limit that readers may have, as text.
std::string_view number_at_limit(Random& random);

}  // namespace modular::fuzz
