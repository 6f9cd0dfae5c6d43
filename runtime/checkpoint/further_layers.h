// Layers of files that a model has not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/checkpoint/model_config.h"

namespace modular {

/// What files hold after the model's last layer: DeepSeek-V3's modules that predict further tokens.
class FurtherLayers {
 public:
  explicit FurtherLayers(const ModelConfig& model);

  /// Whether the tensor of that name is a part of them.
  bool hold(std::string_view name) const;

 private:
  std::string path_;
  uint64_t first_ = 0, count_ = 0;
};

}  // namespace modular
