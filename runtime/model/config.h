// Model configurations: plain structs. The generated files list their fields, so that one visitor serves JSON, command
// line and validation. Names and defaults are those of Hugging Face's config.json.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace modular {

/// Options of rotary position embeddings, named like `rope_parameters` of transformers 5. Older files spread them over
/// `rope_theta` and `rope_scaling`; the reader merges those.
struct RopeParameters {
  std::string rope_type = "default";  // default, linear, dynamic, yarn, longrope, llama3
  double rope_theta = 10000.0;
  std::optional<double> partial_rotary_factor;  // fraction of a head's features that is rotated; all if not given
  std::optional<double> factor;
  std::optional<int64_t> original_max_position_embeddings;
  std::optional<double> attention_factor;
  std::optional<double> beta_fast, beta_slow;                    // yarn
  std::optional<double> mscale, mscale_all_dim;                  // yarn
  std::optional<bool> truncate;                                  // yarn
  std::optional<double> low_freq_factor, high_freq_factor;       // llama3
  std::optional<std::vector<double>> short_factor, long_factor;  // longrope

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("rope_type", rope_type);
    visit("rope_theta", rope_theta);
    visit("partial_rotary_factor", partial_rotary_factor);
    visit("factor", factor);
    visit("original_max_position_embeddings", original_max_position_embeddings);
    visit("attention_factor", attention_factor);
    visit("beta_fast", beta_fast);
    visit("beta_slow", beta_slow);
    visit("mscale", mscale);
    visit("mscale_all_dim", mscale_all_dim);
    visit("truncate", truncate);
    visit("low_freq_factor", low_freq_factor);
    visit("high_freq_factor", high_freq_factor);
    visit("short_factor", short_factor);
    visit("long_factor", long_factor);
  }
};

/// RoPE options by layer type, for models whose layers differ.
struct LayerRopeParameters {
  RopeParameters full_attention, sliding_attention;

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("full_attention", full_attention);
    visit("sliding_attention", sliding_attention);
  }
};

/// RoPE options of a family whose `rope_theta` is not 10000.
inline RopeParameters rotary_base(double theta) {
  RopeParameters rope;
  rope.rope_theta = theta;
  return rope;
}

/// RoPE options of a family that rotates a fraction `factor` of each head's features.
inline RopeParameters partial_rotary(double factor) {
  RopeParameters rope;
  rope.partial_rotary_factor = factor;
  return rope;
}

/// An invalid config value. The message names the field, the problem and the fix.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// For a config's finish(): throws ConfigError unless `layer_types` has one of the `known` names for each of the
/// `num_hidden_layers` layers.
inline void check_layer_types(const std::vector<std::string>& layer_types, int64_t num_hidden_layers,
                              std::initializer_list<std::string_view> known) {
  if (static_cast<int64_t>(layer_types.size()) != num_hidden_layers)
    throw ConfigError("layer_types has " + std::to_string(layer_types.size()) + " names: write num_hidden_layers, " +
                      std::to_string(num_hidden_layers));
  for (const std::string& type : layer_types) {
    if (std::find(known.begin(), known.end(), type) != known.end()) continue;
    std::string message = "layer_types names \"" + type + "\": write one of";
    for (const std::string_view name : known) message.append(" ").append(name);
    throw ConfigError(message);
  }
}

/// For a config's finish(): throws ConfigError if the classifier's labels do not fit a problem that
/// classification_loss() supports.
inline void check_labels(int64_t num_labels, const std::optional<std::string>& problem_type) {
  const std::string problem = problem_type.value_or("regression");
  if (problem != "regression" && problem != "single_label_classification" && problem != "multi_label_classification")
    throw ConfigError("problem_type is \"" + problem +
                      "\": write regression, single_label_classification or multi_label_classification");
  if (num_labels < (problem == "single_label_classification" ? 2 : 1))
    throw ConfigError("num_labels is " + std::to_string(num_labels) +
                      ": write at least 2, or 1 with a problem_type of regression or multi_label_classification");
}

/// A config field that some files write as a number and others as a string.
using IntegerOrString = std::variant<int64_t, std::string>;

class FieldVisitor;

/// A nested config, as a visitor sees it.
class NestedConfig {
 public:
  virtual ~NestedConfig() = default;
  virtual void fields(const FieldVisitor& visit) = 0;
  /// Resets it to the defaults of its own type, which may differ from those that the enclosing config sets.
  virtual void reset() = 0;
};

/// A pointer to a config field, with one alternative for each supported field type.
using ConfigValue =
    std::variant<bool*, int64_t*, double*, std::string*, std::optional<bool>*, std::optional<int64_t>*,
                 std::optional<double>*, std::optional<std::string>*, std::vector<int64_t>*, std::vector<std::string>*,
                 std::optional<std::vector<int64_t>>*, std::optional<std::vector<double>>*, IntegerOrString*,
                 std::optional<IntegerOrString>*, RopeParameters*, LayerRopeParameters*, NestedConfig*>;

/// The range of a field's numbers, which modgen derives from how the family's code uses them.
struct FieldRange {
  int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
};

/// Visits every field of a config by name. `visit` takes the name, the field and, if it has a third parameter, the
/// field's range.
class FieldVisitor {
 public:
  using Visit = std::function<void(std::string_view name, const ConfigValue& field, const FieldRange& range)>;
  template <class Callable>
  explicit FieldVisitor(Callable visit) {
    if constexpr (std::is_constructible_v<Visit, Callable>)
      visit_ = std::move(visit);
    else
      visit_ = [visit = std::move(visit)](std::string_view name, const ConfigValue& field, const FieldRange&) {
        visit(name, field);
      };
  }

  template <class T, class... Limits>
  void operator()(std::string_view name, T& value, Limits... limits) const {
    const FieldRange range{limits...};
    if constexpr (std::is_constructible_v<ConfigValue, T*>) {
      visit_(name, &value, range);
    } else {
      struct Inner final : NestedConfig {
        explicit Inner(T& value) : value(value) {}
        void fields(const FieldVisitor& visit) override { value.fields(visit); }
        void reset() override { value = T(); }
        T& value;
      };
      Inner inner(value);
      visit_(name, &inner, range);
    }
  }

 private:
  Visit visit_;
};

/// A config of unknown type. clone() copies it.
class AnyConfig {
 public:
  virtual ~AnyConfig() = default;
  virtual std::unique_ptr<AnyConfig> clone() const = 0;
  virtual void fields(const FieldVisitor& visit) = 0;
  /// Fills fields that were not given and depend on others. Throws ConfigError if values contradict each other.
  virtual void finish() = 0;
};

/// A config of type `Config` as an AnyConfig.
template <class Config>
class ConfigOf final : public AnyConfig {
 public:
  Config value;
  std::unique_ptr<AnyConfig> clone() const override { return std::make_unique<ConfigOf>(*this); }
  void fields(const FieldVisitor& visit) override { value.fields(visit); }
  void finish() override {
    if constexpr (requires { value.finish(); }) value.finish();
  }
};

}  // namespace modular
