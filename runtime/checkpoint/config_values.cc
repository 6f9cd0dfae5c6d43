#include "runtime/checkpoint/config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/checkpoint/json_text.h"
#include "runtime/model/functions.h"
#include "runtime/model/rope.h"

namespace modular {
namespace {

using nlohmann::json;

constexpr int64_t kLargest =
    (int64_t{1} << 31) - 1;               // so that results that configs compute from two numbers fit in 63 bits
constexpr int64_t kLongestHead = 65'536;  // limits the number of RoPE frequencies

/// Checks the integers of a field against its range.
class RangeCheck {
 public:
  RangeCheck(std::string_view name, const FieldRange& range, const std::string& where)
      : name_(name), range_(range), where_(where) {}

  void operator()(const int64_t* value) const {
    if (*value < range_.least) reject(*value, fmt::format("at least {}", range_.least));
    if (*value > range_.most) reject(*value, fmt::format("at most {}", range_.most));
    if (*value > kLargest || *value < -kLargest)
      reject(*value, fmt::format("a number from {} to {}", -kLargest, kLargest));
  }
  void operator()(const std::vector<int64_t>* values) const {
    for (const int64_t& value : *values) (*this)(&value);
  }
  void operator()(const IntegerOrString* value) const {
    if (const auto* integer = std::get_if<int64_t>(value)) (*this)(integer);
  }
  template <class T>
  void operator()(const std::optional<T>* value) const {
    if (*value) (*this)(&**value);
  }
  void operator()(const void*) const {}  // a field without integers

 private:
  [[noreturn]] void reject(int64_t value, const std::string& what) const {
    throw ConfigError(fmt::format("{}: \"{}\" is {}: write {}", where_, name_, value, what));
  }

  std::string_view name_;
  const FieldRange& range_;
  const std::string& where_;
};

/// Checks the integers of `config`, an AnyConfig or a NestedConfig, and of its nested configs.
template <class Config>
void check_ranges(Config& config, const std::string& where) {
  config.fields(FieldVisitor([&](std::string_view name, const ConfigValue& field, const FieldRange& range) {
    if (const auto* inner = std::get_if<NestedConfig*>(&field))
      check_ranges(**inner, fmt::format("{}: {}", where, name));
    else
      std::visit([&](auto* value) { RangeCheck(name, range, where)(value); }, field);
  }));
}

/// Checks the values of a config and of its nested configs whose names the reference lists.
void check_values(const json& fields, const std::string& where) {
  for (const auto& [key, value] : fields.items())
    if (value.is_object() && key.ends_with("_config")) check_values(value, fmt::format("{}: {}", where, key));
  if (const auto padding = fields.find("pad_token_id"); padding != fields.end() && padding->is_number_integer()) {
    const auto id = padding->get<int64_t>(), rows = fields.value("vocab_size", int64_t{0});
    if (id >= rows || id < -rows)
      throw ConfigError(
          fmt::format("{}: \"pad_token_id\" is {}: write null or an id below vocab_size, {}", where, id, rows));
  }
  for (const char* key : {"activation", "hidden_act", "hidden_activation", "activation_function",
                          "classifier_activation", "pooler_hidden_act", "projector_hidden_act"})
    if (const auto name = fields.find(key); name != fields.end() && name->is_string()) try {
        activation(name->get<std::string>(), at::zeros({1}));
      } catch (const c10::Error& error) {
        throw ConfigError(fmt::format("{}: \"{}\": {}", where, key, error.what_without_backtrace()));
      }
}

/// Finds a config's RoPE parameters and the fields they depend on, and computes the frequencies once, so that an error
/// shows here.
class RopeCheck {
 public:
  template <class Config>
  explicit RopeCheck(Config& config) {
    config.fields(FieldVisitor([this](std::string_view name, const ConfigValue& field) {
      std::visit([&](auto* value) { see(name, *value); }, field);
    }));
  }

  void run(const std::string& where) const {
    if (head_dim_ != 0)
      for (const RopeParameters* rope : sets_) check(where, *rope);
    for (const auto& [name, check] : inner_) check.run(fmt::format("{}: {}", where, name));
  }

 private:
  void check(const std::string& where, const RopeParameters& rope) const {
    const auto is_positive = [](double number) { return number > 0.0 && std::isfinite(number); };
    if (!is_positive(rope.rope_theta))
      throw ConfigError(fmt::format("{}: \"rope_theta\" is {}: write a number above 0", where, rope.rope_theta));
    if (rope.factor && !is_positive(*rope.factor))
      throw ConfigError(fmt::format("{}: \"factor\" of the RoPE parameters is {}: write a number of at least 1", where,
                                    *rope.factor));
    const int64_t original = rope.original_max_position_embeddings.value_or(1);
    if (original < 1 || original > kLargest)
      throw ConfigError(fmt::format("{}: \"original_max_position_embeddings\" is {}: write a number from 1 to {}",
                                    where, original, kLargest));
    if (head_dim_ > kLongestHead)
      throw ConfigError(fmt::format("{}: \"head_dim\" is {}: write at most {}", where, head_dim_, kLongestHead));
    if (head_dim_ % 2 != 0)
      throw ConfigError(
          fmt::format("{}: \"head_dim\" is {}: write an even number, because RoPE rotates pairs", where, head_dim_));
    const double share = rope.partial_rotary_factor.value_or(1.0);
    const bool is_share = share > 0.0 && share <= 1.0;  // excludes NaN
    if (const auto rotated = static_cast<int64_t>(static_cast<double>(head_dim_) * (is_share ? share : 0.0));
        rotated % 2 != 0 || rotated == 0)
      throw ConfigError(
          fmt::format("{}: \"partial_rotary_factor\" is {}: write a fraction that selects an even number of the {} "
                      "features of a head",
                      where, share, head_dim_));
    try {
      rotary_frequencies(rope, head_dim_, positions_, at::tensor({int64_t{1}, 2 * positions_ + 1}, at::kLong));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("{}: {}", where, error.what()));
    }
  }

  void see(std::string_view, const auto&) {}
  void see(std::string_view name, const std::optional<int64_t>& value) {
    if (value) see(name, *value);
  }
  void see(std::string_view, RopeParameters& rope) { sets_.push_back(&rope); }
  void see(std::string_view, LayerRopeParameters& layers) {
    layers.fields([&](const char*, RopeParameters& rope) { sets_.push_back(&rope); });
  }
  void see(std::string_view name, NestedConfig& config) { inner_.emplace_back(std::string(name), RopeCheck(config)); }
  void see(std::string_view name, const int64_t& value) {
    if (name == "head_dim") head_dim_ = value;
    if (name == "max_position_embeddings") positions_ = value;
  }

  std::vector<std::pair<std::string, RopeCheck>> inner_;
  std::vector<const RopeParameters*> sets_;
  int64_t head_dim_ = 0;
  int64_t positions_ = 1;
};

}  // namespace

void finish_config(AnyConfig& config, const std::string& where) {
  check_ranges(config, where);
  check_values(fields_as_json(config), where);
  try {
    config.finish();
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", where, error.what()));
  }
  RopeCheck(config).run(where);
}

}  // namespace modular
