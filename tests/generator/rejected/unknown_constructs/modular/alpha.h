// Constructs whose meaning modgen does not know, where they run.
#pragma once

#include <functional>
#include <map>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  int64_t steps = 2;
};

struct AlphaBox {
  Tensor held;
};

struct AlphaBits {
  int64_t low : 4;
};

struct AlphaNumber {
  union Kind {
    int64_t whole;
    double real;
  };
  Kind kind;
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        steps(config.steps) {}

  Tensor by_exception(const Tensor& x) {
    try {
      return down(up(x));
    } catch (const std::exception&) {
      return x;
    }
  }
  Tensor by_new(const Tensor& x) {
    Tensor* const held = new Tensor(x);
    return down(up(*held));
  }
  Tensor by_member_pointer(const Tensor& x) {
    std::map<std::string, AlphaBox> boxes;
    boxes.emplace("one", AlphaBox{x});
    return x + down(up(std::invoke(&AlphaBox::held, boxes.at("one"))));
  }
  Tensor by_statement_expression(const Tensor& x) {
    return down(up(__extension__({
      const Tensor y = x * 2.0;
      y;
    })));
  }
  Tensor by_bits(const Tensor& x) {
    AlphaBits bits{};
    bits.low = 255;
    return x + down(up(x) * torch::tanh(gate(x).sum(bits.low, true)));
  }
  Tensor by_union(const Tensor& x) {
    AlphaNumber number{};
    number.kind.real = 1.0;
    return x + down(up(x) * torch::tanh(gate(x).sum(number.kind.whole, true)));
  }
  Tensor by_label_inside(const Tensor& x) {
    Tensor y = x;
    switch (steps) {
      case 0:
        return x;
        {
          case 2:
            y = x + up(x).sum(-1, true);
        }
    }
    return y;
  }
  Tensor by_single_case(const Tensor& x) {
    switch (steps)
    case 2:
      return x + up(x).sum(-1, true);
    return x;
  }
  Tensor by_condition(const Tensor& x) {
    while (const bool again = steps > 2) return again ? up(x).sum(-1, true) : x;
    return x;
  }
  Tensor by_local_function(const Tensor& x) {
    Tensor changed(const Tensor& one);
    return down(up(x));
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  int64_t steps;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
