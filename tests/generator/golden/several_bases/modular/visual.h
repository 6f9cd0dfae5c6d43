// One of two bases of pair.h.
#pragma once

#include "modular/modular.h"

namespace modular::visual {
MODULAR_FAMILY(Visual);

struct VisualConfig : Config {
  int64_t hidden_size = 8;
  double factor = 2.0;
};

/// Swaps the halves.
inline Tensor swap_halves(const Tensor& x) { return x.flip(-1); }

/// In both bases, but not the same.
inline Tensor gain(const Tensor& x) { return x * 2.0; }

inline constexpr double kVisualFloor = 0.5;

/// The Visual feed-forward network.
class VisualMLPImpl : public Module {
 public:
  explicit VisualMLPImpl(const VisualConfig& config)
      : fc(register_module("fc", linear(config.hidden_size, config.hidden_size, true))) {}

  Tensor forward(const Tensor& x) { return gain(swap_halves(fc(x)).clamp_min(kVisualFloor)); }

  nn::Linear fc;
};
TORCH_MODULE(VisualMLP);

class VisualLayerImpl : public Module {
 public:
  explicit VisualLayerImpl(const VisualConfig& config) : mlp(register_module("mlp", VisualMLP(config))) {}

  Tensor forward(const Tensor& x) { return x + mlp(x); }

  VisualMLP mlp;
};
TORCH_MODULE(VisualLayer);

class VisualEncoderImpl : public Module {
 public:
  explicit VisualEncoderImpl(const VisualConfig& config) : layer(register_module("layer", VisualLayer(config))) {}

  Tensor forward(const Tensor& x) { return layer(x); }

  VisualLayer layer;
};
TORCH_MODULE(VisualEncoder);

}  // namespace modular::visual
