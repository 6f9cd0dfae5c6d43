// The other base of pair.h.
#pragma once

#include "modular/modular.h"

namespace modular::textual {
MODULAR_FAMILY(Textual);

struct TextualConfig : Config {
  int64_t hidden_size = 16;
};

/// Swaps the halves.
inline Tensor swap_halves(const Tensor& x) { return x.flip(-1); }

/// In both bases, but not the same.
inline Tensor gain(const Tensor& x) { return x * 3.0; }

/// The Textual feed-forward network.
class TextualMLPImpl : public Module {
 public:
  explicit TextualMLPImpl(const TextualConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) { return gain(swap_halves(up(x))); }

  nn::Linear up;
};
TORCH_MODULE(TextualMLP);

class TextualModelImpl : public Module {
 public:
  explicit TextualModelImpl(const TextualConfig& config) : mlp(register_module("mlp", TextualMLP(config))) {}

  Tensor forward(const Tensor& x) { return mlp(x); }

  TextualMLP mlp;
};
TORCH_MODULE(TextualModel);

}  // namespace modular::textual
