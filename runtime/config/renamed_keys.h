// Config keys and metric names of earlier versions, which existing configs, runs and studies still use.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace modular {

struct RenamedKey {
  std::string_view before, now;
};

inline constexpr std::array<RenamedKey, 3> kRenamedKeys = {{{"data.held_out", "data.validation"},
                                                            {"data.held_out_every", "data.validation_every"},
                                                            {"data.held_out_part", "data.validation_fraction"}}};

/// The current name of a config key.
inline std::string current_key(std::string_view key) {
  for (const RenamedKey& renamed : kRenamedKeys)
    if (key == renamed.before) return std::string(renamed.now);
  return std::string(key);
}

inline constexpr std::string_view kLossBefore = "held_out_loss", kLossNow = "val_loss";

/// The current name of a metric: "val_loss/web" for "held_out_loss/web".
inline std::string current_metric(std::string_view name) {
  const bool is_renamed =
      name.starts_with(kLossBefore) && (name.size() == kLossBefore.size() || name[kLossBefore.size()] == '/');
  return is_renamed ? std::string(kLossNow).append(name.substr(kLossBefore.size())) : std::string(name);
}

/// Finds the validation loss in a line of metrics.jsonl or in a trial's values, under either name. Returns json.end()
/// if there is none.
template <class Json>
auto find_val_loss(const Json& json) {
  const auto found = json.find(std::string(kLossNow));
  return found != json.end() ? found : json.find(std::string(kLossBefore));
}

}  // namespace modular
