// Values of TOML as those of settings.
#pragma once

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/config/config_field.h"
#include "runtime/config/toml_text.h"
#include "runtime/model/config.h"
#include "runtime/parallel/memory/memory_options.h"

namespace modular {

/// "the integer 3", "an array of the integer 3, true"
inline std::string describe(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (const auto* array = node.as_array()) {
    std::string elements;
    for (const toml::node& element : *array) elements += (elements.empty() ? " of " : ", ") + describe(element);
    return "an array" + elements;
  }
  if (const auto* text = node.as_string()) {
    std::string value = text->get();
    return "the string " + toml_value(&value);
  }
  if (const auto* number = node.as_integer()) return fmt::format("the integer {}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("the number {}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return "a date or time";
}

/// A value as TOML writes it.
inline std::string get_text(const toml::node& node) {
  if (const auto* number = node.as_floating_point()) {  // of which the library writes more digits than are needed
    double value = number->get();
    return toml_value(&value);
  }
  std::ostringstream out;
  out << toml::toml_formatter(node);
  return out.str();
}

/// A setting's value under the key "value". Text that is not TOML, or nests too deeply for it, is a string.
inline toml::table parse_setting(const std::string& text) {
  try {
    auto table = too_deep_line(text) ? toml::table() : toml::parse("value = " + text);
    if (table.size() == 1) return table;
  } catch (const toml::parse_error&) {
  }
  toml::table table;
  table.insert("value", text);
  return table;
}

/// An integer or a number with a point, as near as can be. The library's own conversion gives none for large integers.
inline double to_number(const toml::node& node) {
  return node.is_integer() ? static_cast<double>(node.as_integer()->get()) : node.as_floating_point()->get();
}

// Each returns what the value should have been, or nothing when it fits.
inline std::string assign(bool& value, const toml::node& node) {
  if (!node.is_boolean()) return "true or false";
  value = node.as_boolean()->get();
  return {};
}
inline std::string assign(int64_t& value, const toml::node& node) {
  if (!node.is_integer()) return "an integer";
  value = node.as_integer()->get();
  return {};
}
inline std::string assign(double& value, const toml::node& node) {
  if (!node.is_number()) return "a number";
  value = to_number(node);
  return {};
}
inline std::string assign(std::string& value, const toml::node& node) {
  const auto* text = node.as_string();
  if (!text) return "a string";
  if (text->get().find('\0') != std::string::npos) return "a string without the character U+0000";
  value = text->get();
  return {};
}
inline std::string assign(IntegerOrString& value, const toml::node& node) {
  if (node.is_string()) return assign(value.emplace<std::string>(), node);
  if (!node.is_integer()) return "an integer or a string";
  value = node.as_integer()->get();
  return {};
}
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
inline std::string assign(Recomputation& value, const toml::node& node) {
  const auto* text = node.as_string();
  Recomputation read(text ? text->get() == "full" : node.is_boolean() && node.as_boolean()->get());
  if (node.is_integer()) read.every = node.as_integer()->get();
  if (!read && (node.is_array() || (text && text->get() != "none")) && !assign(read.operations, node).empty())
    return "an array of operations";
  if ((node.is_integer() && read.every < 1) || !(text || node.is_integer() || node.is_boolean() || node.is_array()))
    return "\"none\", \"full\", an integer of at least 1, or an array of operations";
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

}  // namespace modular
