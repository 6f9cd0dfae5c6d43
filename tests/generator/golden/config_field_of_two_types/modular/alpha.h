// A config's field that is a number, a text or null in config.json.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t num_hidden_layers = 4;
  std::optional<std::variant<int64_t, std::string>> sliding_window_pattern = 4;
  IntegerOrString kind = "local";

  /// Whether a layer has a window: by a letter for each in turn, or all but one of so many.
  bool has_window(int64_t layer) const {
    if (!sliding_window_pattern) return false;
    if (const auto* every = std::get_if<int64_t>(&*sliding_window_pattern)) return (layer + 1) % *every != 0;
    const std::string& letters = std::get<std::string>(*sliding_window_pattern);
    return letters[layer % letters.size()] == 'L';
  }
};

}  // namespace modular::alpha
