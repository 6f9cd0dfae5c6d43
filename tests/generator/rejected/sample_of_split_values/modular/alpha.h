// Losses over a sample of the classes of which no rank could compute the whole.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t vocab_size = 16;
};

class AlphaHeadImpl : public Module {
 public:
  explicit AlphaHeadImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.hidden_size, true))),
        down(register_module("down", linear(config.hidden_size, config.vocab_size, true))),
        table(register_module("table", linear(config.hidden_size, config.vocab_size, true))) {}

  Tensor of_split_states(const Tensor& x, const Tensor& targets) {
    return sampled_cross_entropy(up(x), table->weight, table->bias, targets, 1.0);
  }
  Tensor of_columns(const Tensor& x, const Tensor& targets) {
    return sampled_cross_entropy(x, down->weight, down->bias, targets, 1.0);
  }
  Tensor of_two_layers(const Tensor& x, const Tensor& targets) {
    return sampled_cross_entropy(x, table->weight, down->bias, targets, 1.0);
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_VOCAB nn::Linear table;
};
TORCH_MODULE(AlphaHead);

}  // namespace modular::alpha
