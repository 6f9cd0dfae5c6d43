// Elements whose index is a rank's share of a count: on a single process the index names another element.
#pragma once

#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t num_heads = 4;
  int64_t head_dim = 2;
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : num_heads(config.num_heads),
        head_dim(config.head_dim),
        up(register_module("up", linear(config.hidden_size, config.num_heads * config.head_dim, false))),
        scale(register_parameter("scale", torch::ones({config.hidden_size}))),
        scales({1.0, 2.0, 4.0, 8.0, 16.0}) {}

  Tensor of_parameter(const Tensor& x) { return x * scale[num_heads]; }
  Tensor of_list(const Tensor& x) { return x.unbind(1)[num_heads]; }
  Tensor of_numbers(const Tensor& x) { return x * scales[num_heads]; }
  Tensor of_text(const Tensor& x) { return x * (std::string("abcdefgh")[num_heads] == 'e' ? 1.0 : 2.0); }
  Tensor by_size(const Tensor& x) { return x * scale[up(x).size(-1)]; }
  Tensor by_own_call(const Tensor& x) { return up(x).view({x.size(0), x.size(1), tp::local(head_dim), -1}); }

  TP_LOCAL int64_t num_heads;
  int64_t head_dim;
  TP_COLWISE nn::Linear up;
  Tensor scale;
  std::vector<double> scales;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
