#include "runtime/config/config_field.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace modular {

namespace {

/// Collects the fields that it visits, with `prefix` before their names.
FieldVisitor collector(const std::string& prefix, std::vector<ConfigField>& fields) {
  return FieldVisitor([prefix, &fields](std::string_view name, const ConfigValue& field) {
    const std::string path = prefix + std::string(name);
    std::visit(
        [&](auto* value) {
          if constexpr (std::is_constructible_v<FieldPointer, decltype(value)>)
            fields.push_back({path, value, {}, {}});
          else
            value->fields(collector(path + ".", fields));
        },
        field);
  });
}

std::string toml_text(bool value) { return value ? "true" : "false"; }
std::string toml_text(int64_t value) { return fmt::format("{}", value); }
std::string toml_text(double value) {
  auto text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}
std::string toml_text(const std::string& value) {
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      quoted += '\\', quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}
std::string toml_text(const IntegerOrString& value) {
  return std::visit([](const auto& held) { return toml_text(held); }, value);
}
std::string toml_text(const ParameterGroup& group);
template <class T>
std::string toml_text(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + toml_text(value);
  return text + "]";
}
template <class T>
std::string toml_text(const std::optional<T>& value) {
  return value ? toml_text(*value) : "";
}

std::string toml_text(const std::vector<SetOptions>& sets) {
  std::string text;
  for (const SetOptions& set : sets) {
    const std::string format = toml_text(set.format);
    text += fmt::format("{}{} = {{paths = {}, weight = {}{}{}}}", text.empty() ? "" : ", ", set.name,
                        toml_text(set.paths), toml_text(set.weight), format.empty() ? "" : ", format = " + format,
                        set.loss.empty() ? "" : ", loss = " + toml_text(set.loss));
  }
  return "{" + text + "}";
}

std::string toml_text(const Recomputation& recompute) {
  if (!recompute.operations.empty()) return toml_text(recompute.operations);
  return recompute.every == 0 ? "\"none\"" : recompute.every == 1 ? "\"full\"" : toml_text(recompute.every);
}

std::string toml_text(const ParameterGroup& group) {
  const std::string decay = toml_text(group.weight_decay);
  return fmt::format("{{match = {}, lr_scale = {}{}}}", toml_text(group.match), toml_text(group.lr_scale),
                     decay.empty() ? "" : ", weight_decay = " + decay);
}

size_t edit_distance(std::string_view one, std::string_view other) {
  std::vector<size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < one.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < other.size(); ++j) {
      const size_t replaced = diagonal + (one[i] != other[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string_view leaf(std::string_view path) { return path.substr(path.rfind('.') + 1); }

}  // namespace

std::vector<ConfigField> section_fields(RunConfig& config) {
  std::vector<ConfigField> fields;
  config.sections([&](std::string_view section, auto& values) {
    values.fields([&](std::string_view name, auto& value, std::string_view help, FieldRule rule = {},
                      std::optional<double> at_most = {}) {
      rule.at_most = at_most;
      fields.push_back({fmt::format("{}.{}", section, name), &value, help, rule});
    });
  });
  return fields;
}

bool names_program(const ConfigField& field) {
  if (field.rule.names == Names::nothing) return false;
  const std::string& value = *std::get<std::string*>(field.value);
  return field.rule.names == Names::program ? !value.empty() : value.find('/') != std::string::npos;
}

std::vector<ConfigField> model_fields(AnyConfig& config) {
  std::vector<ConfigField> fields;
  config.fields(collector("model.config.", fields));
  return fields;
}

std::string toml_value(const FieldPointer& value) {
  return std::visit([](const auto* held) { return toml_text(*held); }, value);
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-=:,@%+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& known) {
  constexpr size_t kLongest = 200;  // a file's keys may have any length, and the distance takes quadratic time
  if (name.size() > kLongest) return {};
  const auto distance = [&](const std::string& other) {
    return std::min(edit_distance(name, other), edit_distance(leaf(name), leaf(other)) + 1);
  };
  const auto nearest = std::ranges::min_element(known, {}, distance);
  if (nearest == known.end() || distance(*nearest) > std::max<size_t>(2, leaf(name).size() / 3 + 1)) return {};
  return *nearest;
}

}  // namespace modular
