// Edits of a config's fields by path, and the values that are worth trying.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checks/execute/contract_in_double.h"

namespace modular::execute {

/// An edit of one field of a config.
struct Edit {
  std::string name;
  std::function<void(AnyConfig&)> apply;
};

/// Calls `visit(path, field)` for each field, also those of nested configs: "text_config.hidden_size".
void visit_fields(AnyConfig& config, const std::function<void(const std::string&, const ConfigValue&)>& visit);

/// Sets the field of this path, of type T, to `value`.
template <class T>
Edit set_field(const std::string& path, const T& value, std::string description) {
  return {std::move(description), [path, value](AnyConfig& config) {
            visit_fields(config, [&](const std::string& name, const ConfigValue& field) {
              if (const auto* found = std::get_if<T*>(&field); found && name == path) **found = value;
            });
          }};
}

/// Sets an integer field, also an optional one that has no value.
Edit set_integer(const std::string& path, int64_t value);

/// The integer fields that have values, with their paths.
std::vector<std::pair<std::string, int64_t>> integer_fields(AnyConfig& config);

/// Another value of a field that has few: edits of which one should be tried, the preferred first.
struct Alternative {
  std::string path;
  std::vector<Edit> edits;
};

/// Other values of the fields that have few. A field may have several. Counts that `plan` splits get values that ranks
/// do not divide.
std::vector<Alternative> alternatives(AnyConfig& config, const Plan& plan);

/// Sizes to try for fields with a word in their name, best first: a mask's reach has to be shorter than a sequence, and
/// an image should have several patches.
struct Hint {
  std::string_view word;
  std::vector<int64_t> sizes;   // instead of a larger default
  std::vector<int64_t> values;  // of an optional field that is not given
};

/// The hint for a field; null if there is none.
const Hint* find_hint(std::string_view path);

}  // namespace modular::execute
