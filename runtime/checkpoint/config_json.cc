#include "runtime/checkpoint/config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/checkpoint/json_text.h"
#include "runtime/files/open_file.h"

namespace modular {
namespace {

using nlohmann::json;

constexpr const char* kSpecialFloat = "__float__";  // transformers 5 writes {"__float__": "Infinity"}
constexpr std::string_view kSpecialFloats[] = {"-Infinity", "Infinity", "NaN"};

std::optional<double> to_double(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_object() || value.size() != 1 || !value.contains(kSpecialFloat)) return {};
  const json& text = value[kSpecialFloat];
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return {};
}

json from_double(double value) {
  if (std::isfinite(value)) return value;
  return {{kSpecialFloat, std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity"}};
}

/// Whether a number is an integer that fits into an int64_t.
bool is_integer(const json& value) {
  return value.is_number_integer() && (!value.is_number_unsigned() || std::in_range<int64_t>(value.get<uint64_t>()));
}

/// Converts one value, or throws an error with the expected type.
struct Converter {
  std::string where;

  [[noreturn]] void reject(std::string_view key, const json& value, std::string_view what) const {
    throw ConfigError(fmt::format("{}: \"{}\" is {}: write {}", where, key, shown(value), what));
  }

  void operator()(std::string_view key, const json& from, bool& to) const {
    if (!from.is_boolean()) reject(key, from, "true or false");
    to = from.get<bool>();
  }
  void operator()(std::string_view key, const json& from, int64_t& to) const {
    if (!is_integer(from)) reject(key, from, "an integer");
    to = from.get<int64_t>();
  }
  void operator()(std::string_view key, const json& from, double& to) const {
    const auto value = to_double(from);
    if (!value) reject(key, from, "a number");
    to = *value;
  }
  void operator()(std::string_view key, const json& from, std::string& to) const {
    if (!from.is_string()) reject(key, from, "a string");
    to = from.get<std::string>();
  }
  void operator()(std::string_view key, const json& from, IntegerOrString& to) const {
    if (is_integer(from))
      to = from.get<int64_t>();
    else if (from.is_string())
      to = from.get<std::string>();
    else
      reject(key, from, "an integer or a string");
  }
  template <class T>
  void operator()(std::string_view key, const json& from, std::optional<T>& to) const {
    if (std::is_arithmetic_v<T> && from == "auto") return to.reset();  // derived from other fields
    T value{};
    (*this)(key, from, value);
    to = std::move(value);
  }
  template <class T>
  void operator()(std::string_view key, const json& from, std::vector<T>& to) const {
    if (!from.is_array()) reject(key, from, "a list");
    to.clear();
    for (const json& element : from) (*this)(key, element, to.emplace_back());
  }
  /// A list of words; DeBERTa's files also write it as text, "p2c|c2p".
  void operator()(std::string_view key, const json& from, std::vector<std::string>& to) const {
    if (!from.is_string()) return (*this).operator()<std::string>(key, from, to);
    to.clear();
    std::istringstream text(from.get<std::string>());
    for (std::string word; std::getline(text, word, '|');) to.push_back(word);
  }
};

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;

/// Moves `key` from `object` into `to`. If the key is absent, `to` keeps its default; null keeps a plain field's
/// default and empties an optional one.
template <class T>
void take(json& object, std::string_view key, const std::string& path, const Converter& convert, T& to) {
  const auto found = object.find(key);
  if (found == object.end()) return;
  const json value = std::move(*found);
  object.erase(found);
  if (!value.is_null()) return convert(path, value, to);
  if constexpr (is_optional<T>) to.reset();
}

/// Alternative names of a field, from other families or releases.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"n_embd", "hidden_size"},
    {"n_positions", "max_position_embeddings"},
    {"n_head", "num_attention_heads"},
    {"n_layer", "num_hidden_layers"},
    {"hidden_size", "n_embed"},
    {"num_experts", "num_local_experts"},
    {"num_local_experts", "num_experts"},
    {"n_routed_experts", "num_experts"},
    {"n_routed_experts", "num_local_experts"},
    {"image_token_index", "image_token_id"},
};

/// Moves `object[from]` to `rope[to]` if `rope[to]` is not set.
void move_into(json& rope, const std::string& to, json& object, const std::string& from) {
  const auto found = object.find(from);
  if (found == object.end()) return;
  if (!found->is_null() && !rope.contains(to)) rope[to] = *found;
  object.erase(found);
}

/// Removes the object `key` from `object` and returns it; an empty object if it is null or absent.
json take_object(json& object, const std::string& key, const Converter& convert) {
  const auto found = object.find(key);
  if (found == object.end()) return json::object();
  if (!found->is_null() && !found->is_object()) convert.reject(key, *found, "an object with rope_type and rope_theta");
  json parameters = found->is_null() ? json::object() : *found;
  object.erase(found);
  return parameters;
}

/// Renames the type of one set of RoPE parameters to its current name.
void rename_kind(json& rope) {
  if (const auto type = rope.find("type"); type != rope.end()) {
    if (!rope.contains("rope_type")) rope["rope_type"] = *type;
    rope.erase("type");
  }
  if (rope.contains("rope_type") && rope["rope_type"] == "su") rope["rope_type"] = "longrope";  // its original name
}

/// Merges the old and new locations of the RoPE parameters into one object with the new names.
json take_rope_object(json& object, const Converter& convert) {
  json rope = take_object(object, "rope_parameters", convert);
  if (json scaling = take_object(object, "rope_scaling", convert); !scaling.empty()) rope = std::move(scaling);
  for (const auto& [key, value] : rope.items())
    if (value.is_object() && !value.contains(kSpecialFloat))
      convert.reject("rope_parameters." + key, value,
                     "one set of RoPE parameters for all layers: this model does not have others per layer type");
  rename_kind(rope);
  for (const char* key : {"rope_theta", "rotary_emb_base"}) move_into(rope, "rope_theta", object, key);
  for (const char* key : {"partial_rotary_factor", "rotary_pct"}) move_into(rope, "partial_rotary_factor", object, key);
  if (const auto original = object.find("original_max_position_embeddings"); original != object.end()) {
    if (!original->is_null()) rope["original_max_position_embeddings"] = *original;
    object.erase(original);
  }
  return rope;
}

/// The same by layer type. A model that used to have a single set has it for the layers with full attention.
json take_rope_by_layer_type(json& object, const Converter& convert) {
  json rope = take_object(object, "rope_parameters", convert);
  json full = take_object(rope, "full_attention", convert), sliding = take_object(rope, "sliding_attention", convert);
  full.update(take_object(object, "rope_scaling", convert));
  for (const char* key : {"rope_theta", "global_rope_theta"}) move_into(full, "rope_theta", object, key);
  for (const char* key : {"rope_local_base_freq", "local_rope_theta"}) move_into(sliding, "rope_theta", object, key);
  rename_kind(full), rename_kind(sliding);
  rope["full_attention"] = std::move(full);
  rope["sliding_attention"] = std::move(sliding);
  return rope;
}

class Reader {
 public:
  Reader(json& object, const std::string& where) : object_(object), convert_{where} {}

  /// Sets the fields of `config`, an AnyConfig or NestedConfig.
  template <class Config>
  void read_all(Config& config) {
    config.fields(FieldVisitor([this](std::string_view name, const ConfigValue& field) {
      std::visit([&](auto* value) { read(name, *value); }, field);
    }));
    finish();
  }

 private:
  /// RoPE parameters come last: their old names may be names of the config's own fields.
  void finish() {
    json rest;
    if (rope_) rest = take_set(take_rope_object(object_, convert_), std::string(rope_name_), *rope_);
    if (layer_rope_) {
      rest = take_rope_by_layer_type(object_, convert_);
      layer_rope_->fields([&](const char* type, RopeParameters& parameters) {
        rest[type] = take_set(rest[type], fmt::format("{}.{}", rope_name_, type), parameters);
        if (rest[type].empty()) rest.erase(type);
      });
    }
    if (!rest.empty()) object_[std::string(rope_name_)] = std::move(rest);
  }

  template <class T>
  void read(std::string_view name, T& value) {
    for (const auto& [field, other] : kOtherNames)
      if (field == name && !object_.contains(name) && object_.contains(other))
        return take(object_, other, std::string(other), convert_, value);
    take(object_, name, std::string(name), convert_, value);
  }

  void read(std::string_view name, RopeParameters& value) {
    rope_name_ = name;
    rope_ = &value;
  }
  void read(std::string_view name, LayerRopeParameters& value) {
    rope_name_ = name;
    layer_rope_ = &value;
  }
  void read(std::string_view name, NestedConfig& config) {
    // CLIP's first releases wrote "text_config_dict", which wins as a unit.
    json rest = read_nested(name, std::string(name), config);
    rest.update(read_nested(name, std::string(name) + "_dict", config));
    if (!rest.empty()) object_[std::string(name)] = std::move(rest);
  }

  /// Reads the nested config at `key`, if there is one; fields that it does not set keep the inner type's defaults.
  /// Returns the keys that match no field.
  json read_nested(std::string_view name, const std::string& key, NestedConfig& config) {
    const auto found = object_.find(key);
    if (found == object_.end() || found->is_null()) {
      object_.erase(key);
      return json::object();
    }
    if (!found->is_object()) convert_.reject(key, *found, "an object, the config of that part");
    json inner = std::move(*found);
    object_.erase(key);
    config.reset();
    Reader(inner, fmt::format("{}: {}", convert_.where, name)).read_all(config);
    return inner;
  }

  /// Returns the keys of `rope` that match no parameter.
  json take_set(json rope, const std::string& path, RopeParameters& parameters) const {
    parameters.fields(
        [&](std::string_view key, auto& value) { take(rope, key, fmt::format("{}.{}", path, key), convert_, value); });
    return rope;
  }

  json& object_;
  Converter convert_;
  std::string_view rope_name_;
  RopeParameters* rope_ = nullptr;
  LayerRopeParameters* layer_rope_ = nullptr;
};

template <class T>
void print(json& into, std::string_view name, const T& value) {
  json& target = into[std::string(name)];
  if constexpr (is_optional<T>) {
    if (value) print(into, name, *value);
  } else if constexpr (std::is_same_v<T, IntegerOrString>) {
    std::visit([&](const auto& held) { target = held; }, value);
  } else if constexpr (std::is_same_v<T, double>) {
    target = from_double(value);
  } else if constexpr (std::is_same_v<T, std::vector<double>>) {
    target = json::array();
    for (const double element : value) target.push_back(from_double(element));
  } else {
    target = value;
  }
}
void print(json& into, std::string_view name, RopeParameters& value) {
  json rope = json::object();
  value.fields([&](std::string_view key, auto& setting) {
    if constexpr (is_optional<std::decay_t<decltype(setting)>>) {
      if (!setting) return;
    }
    print(rope, key, setting);
  });
  into[std::string(name)] = std::move(rope);
}
void print(json& into, std::string_view name, LayerRopeParameters& value) {
  json& sets = into[std::string(name)];
  value.fields([&](const char* type, RopeParameters& rope) { print(sets, type, rope); });
}
FieldVisitor printer_into(json& object);
void print(json& into, std::string_view name, NestedConfig& config) {
  json inner = json::object();
  config.fields(printer_into(inner));
  into[std::string(name)] = std::move(inner);
}

FieldVisitor printer_into(json& object) {
  return FieldVisitor([&object](std::string_view name, const ConfigValue& field) {
    std::visit([&](auto* value) { print(object, name, *value); }, field);
  });
}

}  // namespace

std::string with_named_special_floats(std::string_view text) {
  std::string result;
  bool in_string = false;
  for (size_t at = 0; at < text.size();) {
    const auto here = [&](std::string_view word) { return text.substr(at, word.size()) == word; };
    const auto* special = in_string ? std::end(kSpecialFloats) : std::ranges::find_if(kSpecialFloats, here);
    if (special != std::end(kSpecialFloats)) {
      result.append(json{{kSpecialFloat, *special}}.dump());
      at += special->size();
      continue;
    }
    if (text[at] == '"') in_string = !in_string;
    const size_t length = in_string && text[at] == '\\' ? 2 : 1;
    result.append(text.substr(at, length));
    at += length;
  }
  return result;
}

json parse_config_json(std::string_view text) { return parse_json(with_named_special_floats(text)); }

std::string read_config_text(const std::filesystem::path& path) {
  constexpr int64_t kMostBytes = int64_t{16} << 20;
  try {
    return read_file(path, kMostBytes);
  } catch (const std::runtime_error& error) {
    throw ConfigError(error.what());
  }
}

void take_fields(AnyConfig& config, json& object, const std::string& where) { Reader(object, where).read_all(config); }

json fields_as_json(AnyConfig& config) {
  json object = json::object();
  config.fields(printer_into(object));
  return object;
}

}  // namespace modular
