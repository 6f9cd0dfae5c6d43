// TOML text from untrusted sources, and the config values in it.
#pragma once

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/files/open_file.h"
#include "runtime/model/config.h"
#include "runtime/parallel/memory/memory_options.h"

namespace modular {

/// First line of a TOML text with more than 100 levels, counting key components and the tables and arrays around a
/// value; nullopt if there is none. The TOML library recurses into each level and checks only some of them.
std::optional<int64_t> too_deep_line(std::string_view text);

/// The tables of a file. Throws ConfigError "file:line:column: …".
toml::table parse_toml_file(const std::filesystem::path& file, Links links = Links::none);

/// A value under the key "value". Text that is not TOML, or is nested too deeply, becomes a string.
toml::table parse_setting(const std::string& text);

/// "the integer 3", "an array of the integer 3, true"
std::string describe(const toml::node& node);

/// A value in TOML syntax.
std::string get_text(const toml::node& node);

/// An integer or floating-point number as the nearest double. The library's own conversion fails for large integers.
double to_number(const toml::node& node);

// Each overload returns the expected type, or an empty string if the value fits.
std::string assign(bool& value, const toml::node& node);
std::string assign(int64_t& value, const toml::node& node);
std::string assign(double& value, const toml::node& node);
std::string assign(std::string& value, const toml::node& node);
std::string assign(IntegerOrString& value, const toml::node& node);
std::string assign(Recomputation& value, const toml::node& node);
template <class T>
std::string assign(std::vector<T>& value, const toml::node& node) {
  const auto* array = node.as_array();
  std::vector<T> read(array ? array->size() : 1);  // one element may be written without brackets
  for (size_t i = 0; i < read.size(); ++i) {
    const auto expected = assign(read[i], array ? *array->get(i) : node);
    if (!expected.empty()) return "an array, each element " + expected;
  }
  value = std::move(read);
  return {};
}
template <class T>
std::string assign(std::optional<T>& value, const toml::node& node) {
  T read{};
  auto expected = assign(read, node);
  if (expected.empty()) value = std::move(read);
  return expected;
}

/// The tables of optim.groups, or a single one. Throws ConfigError at `where`.
std::vector<ParameterGroup> read_groups(const toml::node& node, const std::string& where);

/// Assigns the key that follows "data.sets.": "NAME.paths", or "NAME" for an empty table. Keeps the sets sorted by
/// name. Returns an error message, or an empty string.
std::string assign_set(std::vector<SetOptions>& sets, std::string_view key, const toml::node& value);

}  // namespace modular
