// One config value of a run, of any type and section, by its path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/config/config.h"

namespace modular {

using FieldPointer =
    std::variant<bool*, int64_t*, double*, std::string*, std::optional<bool>*, std::optional<int64_t>*,
                 std::optional<double>*, std::optional<std::string>*, std::vector<int64_t>*, std::vector<std::string>*,
                 std::optional<std::vector<int64_t>>*, std::optional<std::vector<double>>*, IntegerOrString*,
                 std::optional<IntegerOrString>*, std::vector<ParameterGroup>*, std::vector<SetOptions>*,
                 Recomputation*>;

struct ConfigField {
  std::string path;       // "train.steps", "model.config.hidden_size"
  FieldPointer value;     // points into the RunConfig
  std::string_view help;  // empty for the model's own fields
  FieldRule rule;
};

/// All fields of all sections.
std::vector<ConfigField> section_fields(RunConfig& config);

/// Whether the value of a field is a program or a library that modrun would execute.
bool names_program(const ConfigField& field);

/// The fields of the model's own config, under "model.config.".
std::vector<ConfigField> model_fields(AnyConfig& config);

/// A value in TOML syntax; empty for an optional without a value.
std::string toml_value(const FieldPointer& value);

/// A word of a printed command, quoted for a shell if it holds special characters.
std::string shell_word(std::string_view word);

/// The known name nearest to `name` by edit distance; nullopt if none is near. A matching, or nearly matching, last
/// component counts more than the section before it.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace modular
