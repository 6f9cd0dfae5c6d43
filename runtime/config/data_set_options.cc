#include "runtime/config/data_set_options.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "runtime/config/config_field.h"
#include "runtime/config/toml_values.h"

namespace modular {
namespace {

bool is_plain(unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; }

}  // namespace

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
