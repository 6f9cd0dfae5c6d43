// Parallel calls would have to be inserted into a class inside a method, and into a friend. A class that derives from
// another one inside a class passes its base a value.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

class AlphaBlockImpl : public Module {
 public:
  explicit AlphaBlockImpl(const AlphaConfig& config)
      : up(linear(config.hidden_size, config.hidden_size, true)),
        down(linear(config.hidden_size, config.hidden_size, true)) {}

  struct Pair {
    Tensor first;
    explicit Pair(const Tensor& first) : first(first) {}
  };
  struct Triple : Pair {
    Tensor last;
    explicit Triple(const Tensor& value) : Pair(value), last(value) {}
  };

  Tensor forward(const Tensor& x) { return in_a_class(x) + in_a_friend(x, *this); }

  Tensor in_a_class(const Tensor& x) {
    struct Runner {
      Tensor run(AlphaBlockImpl& block, const Tensor& value) { return block.down(block.up(value)); }
    };
    return Runner().run(*this, x);
  }

  friend Tensor in_a_friend(const Tensor& x, AlphaBlockImpl& block) { return block.down(block.up(x)); }

  Tensor in_a_base(const Tensor& x) {
    const Triple triple(up(x));
    return down(triple.first);
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};

}  // namespace modular::alpha
