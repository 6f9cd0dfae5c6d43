// Parallel calls would have to be inserted into a class inside a method, and into a friend. A class that derives from
// another one inside a class passes its base a value, hides a member of its base, or overrides a method.
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

  struct Hidden : Pair {
    using Pair::Pair;
    Tensor first;
  };
  struct Plain {
    virtual Tensor run(const Tensor& value) { return value; }
  };
  struct Averaging : Plain {
    Tensor run(const Tensor& value) override { return value.mean(-1, true); }
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

  Tensor overridden(const Tensor& x) {
    Averaging averaging;
    Plain& plain = averaging;
    return down(plain.run(up(x)));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};

}  // namespace modular::alpha
