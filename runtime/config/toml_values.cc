#include "runtime/config/toml_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "runtime/config/config_errors.h"
#include "runtime/config/config_field.h"

namespace modular {
namespace {

constexpr size_t kDeepest = 100;        // levels; configs have four
constexpr int64_t kLargest = 16 << 20;  // bytes; a wrong file may have any size

/// Length of the string literal at the start of `text`, with its quotes. An unterminated single-line string ends with
/// its line.
size_t string_length(std::string_view text) {
  const std::string_view triple = text.substr(0, 3);
  const bool has_lines = triple == "\"\"\"" || triple == "'''";
  const std::string_view quotes = text.substr(0, has_lines ? 3 : 1);
  size_t end = quotes.size();
  for (; end < text.size() && !text.substr(end).starts_with(quotes); ++end) {
    if (text[end] == '\n' && !has_lines) return end;
    if (text[end] == '\\' && quotes.front() == '"') ++end;
  }
  end = std::min(text.size(), end + quotes.size());
  while (has_lines && end < text.size() && text[end] == quotes.front()) ++end;  // quotes before the closing three
  return end;
}

bool is_plain(unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; }

/// Reads one element of optim.groups, a table.
ParameterGroup read_group(const toml::node& node, const std::string& where) {
  const auto* table = node.as_table();
  if (!table)
    reject(where, fmt::format("optim.groups must be an array of tables, e.g. [{{match = ['model.layers.*.mlp'], "
                              "lr_scale = 0.1}}], but an element is {}",
                              describe(node)));
  ParameterGroup group;
  const auto assign_key = [&](std::string_view key, const toml::node& value) -> std::string {
    if (key == "match") return assign(group.match, value);
    if (key == "lr_scale") return assign(group.lr_scale, value);
    if (key == "weight_decay") return assign(group.weight_decay, value);
    const auto nearest = nearest_name(key, {"match", "lr_scale", "weight_decay"});
    reject(where, fmt::format("optim.groups: unknown key {}: {}", key,
                              nearest ? fmt::format("did you mean {}?", *nearest)
                                      : "a group has match, lr_scale and weight_decay"));
  };
  for (const auto& [key, value] : *table)
    if (const auto expected = assign_key(key.str(), value); !expected.empty())
      reject(where, fmt::format("optim.groups: {} must be {}, but is {}", key.str(), expected, describe(value)));
  for (const auto& [key, value] :
       {std::pair("lr_scale", group.lr_scale), std::pair("weight_decay", group.weight_decay.value_or(0.0))})
    if (!(value >= 0.0)) reject(where, fmt::format("optim.groups: {} must be at least 0, but is {}", key, value));
  if (group.match.empty()) reject(where, "optim.groups: a group has no match: name its modules and parameters");
  return group;
}

}  // namespace

std::optional<int64_t> too_deep_line(std::string_view text) {
  int64_t line = 1;
  std::vector<size_t> open;  // per open bracket, the levels within it
  size_t dots = 0;           // of the current key
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const size_t level = (open.empty() ? 0 : open.back()) + dots;
    if (c == '"' || c == '\'') {
      const std::string_view string = text.substr(i, string_length(text.substr(i)));
      line += std::ranges::count(string, '\n');
      i += string.size() - 1;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '.') {
      ++dots;
    } else if (c == '[' || c == '{') {
      open.push_back(level + 1);
      dots = 0;
    } else if (c == ']' || c == '}') {
      if (!open.empty()) open.pop_back();
      dots = 0;
    } else if (c == ',' || c == '\n') {
      dots = 0;
      line += c == '\n';
    }
    if (level > kDeepest) return line;
  }
  return {};
}

toml::table parse_toml_file(const std::filesystem::path& file, Links links) {
  const std::string name = file.string();
  std::string text;
  try {
    text = read_file(file, kLargest, links);
  } catch (const std::runtime_error& error) {
    throw ConfigError(error.what());
  }
  if (const auto line = too_deep_line(text))
    reject(fmt::format("{}:{}", name, *line), fmt::format("nests more than {} levels deep", kDeepest));
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    const auto& begin = error.source().begin;
    reject(fmt::format("{}:{}:{}", name, begin.line, begin.column), std::string(error.description()));
  }
}

std::string describe(const toml::node& node) {
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

std::string get_text(const toml::node& node) {
  if (const auto* number = node.as_floating_point()) {  // the library writes more digits than needed
    double value = number->get();
    return toml_value(&value);
  }
  std::ostringstream out;
  out << toml::toml_formatter(node);
  return out.str();
}

toml::table parse_setting(const std::string& text) {
  try {
    auto table = too_deep_line(text) ? toml::table() : toml::parse("value = " + text);
    if (table.size() == 1) return table;
  } catch (const toml::parse_error&) {
  }
  toml::table table;
  table.insert("value", text);
  return table;
}

double to_number(const toml::node& node) {
  return node.is_integer() ? static_cast<double>(node.as_integer()->get()) : node.as_floating_point()->get();
}

std::string assign(bool& value, const toml::node& node) {
  if (!node.is_boolean()) return "true or false";
  value = node.as_boolean()->get();
  return {};
}

std::string assign(int64_t& value, const toml::node& node) {
  if (!node.is_integer()) return "an integer";
  value = node.as_integer()->get();
  return {};
}

std::string assign(double& value, const toml::node& node) {
  if (!node.is_number()) return "a number";
  value = to_number(node);
  return {};
}

std::string assign(std::string& value, const toml::node& node) {
  const auto* text = node.as_string();
  if (!text) return "a string";
  if (text->get().find('\0') != std::string::npos) return "a string without the character U+0000";
  value = text->get();
  return {};
}

std::string assign(IntegerOrString& value, const toml::node& node) {
  if (node.is_string()) return assign(value.emplace<std::string>(), node);
  if (!node.is_integer()) return "an integer or a string";
  value = node.as_integer()->get();
  return {};
}

std::string assign(Recomputation& value, const toml::node& node) {
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

std::vector<ParameterGroup> read_groups(const toml::node& node, const std::string& where) {
  const auto* array = node.as_array();
  if (!array) return {read_group(node, where)};
  std::vector<ParameterGroup> groups;
  for (const auto& element : *array) groups.push_back(read_group(element, where));
  return groups;
}

std::string assign_set(std::vector<SetOptions>& sets, std::string_view key, const toml::node& value) {
  const size_t dot = key.rfind('.');
  const std::string name(key.substr(0, dot)), whole = fmt::format("data.sets.{}", key);
  if (name.empty() || !std::ranges::all_of(name, is_plain))
    return fmt::format("data.sets has \"{}\": name a set by letters, digits, - and _", name);
  auto set = std::ranges::lower_bound(sets, name, {}, &SetOptions::name);
  if (set == sets.end() || set->name != name) set = sets.insert(set, {.name = name});

  if (dot == std::string_view::npos)
    return value.is_table() ? "" : fmt::format("{} must be a table of paths, weight, format and loss", whole);
  const std::string_view field = key.substr(dot + 1);
  std::string expected;
  if (field == "paths") {
    expected = assign(set->paths, value);
  } else if (field == "weight") {
    expected = assign(set->weight, value);
    if (expected.empty() && !(set->weight > 0.0 && std::isfinite(set->weight)))
      return fmt::format("{} must be a finite number above 0, but is {}", whole, set->weight);
  } else if (field == "format") {
    expected = assign(set->format, value);
  } else if (field == "loss") {
    expected = assign(set->loss, value);
  } else {
    const auto nearest = nearest_name(field, {"paths", "weight", "format", "loss"});
    return fmt::format(
        "unknown key {}: {}", whole,
        nearest ? fmt::format("did you mean {}?", *nearest) : "a set has paths, weight, format and loss");
  }
  return expected.empty() ? "" : fmt::format("{} must be {}, but is {}", whole, expected, describe(value));
}

}  // namespace modular
