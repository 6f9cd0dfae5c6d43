// Layers in files that the model does not have.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/checkpoint/model_config.h"

namespace modular {

/// Layers that files hold after the model's last layer: DeepSeek-V3's multi-token prediction modules.
class FurtherLayers {
 public:
  explicit FurtherLayers(const ModelConfig& model);

  /// Whether the tensor of that name belongs to them.
  bool hold(std::string_view name) const;

 private:
  std::string path_;
  uint64_t first_ = 0, count_ = 0;
};

}  // namespace modular
