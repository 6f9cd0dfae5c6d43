// A constructor without its class and an initializer list after a member: Clang 19 crashes, after it said what is wrong.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

class AlphaLayerImpl : public Module {
 public:
  const RotaryTables rotary_embeddings = rotary_positions(batch, hidden_states.scalar_type());
      : Module(config, layer), is_sliding(config.hidden_size == 8) {}

  bool is_sliding;
};
TORCH_MODULE(AlphaLayer);

}  // namespace modular::alpha
