// Tensors that are changed in place although something else may name the same memory.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

class AlphaInPlaceImpl : public Module {
 public:
  explicit AlphaInPlaceImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))),
        scale(register_parameter("scale", torch::ones({config.hidden_size}))) {}

  Tensor of_argument(const Tensor& hidden_states) {
    Tensor x = hidden_states;
    x *= 1.5;
    return proj(x);
  }
  Tensor by_method(const Tensor& hidden_states) {
    Tensor x = hidden_states.view({-1, 8});
    x.add_(1.0);
    return proj(x);
  }
  Tensor by_index(Tensor hidden_states) {
    hidden_states[0] = 0.0 * hidden_states[0];
    return proj(hidden_states);
  }
  Tensor by_function(const Tensor& hidden_states) {
    Tensor x = hidden_states;
    torch::relu_(x);
    return proj(x);
  }
  Tensor of_parameter(const Tensor& hidden_states) { return proj(hidden_states) * scale.mul_(2.0); }
  Tensor of_two_names(const Tensor& hidden_states) {
    Tensor x = hidden_states * 2.0;
    Tensor y = x.transpose(0, 1);
    y += 1.0;
    return proj(x);
  }
  Tensor after_use(const Tensor& hidden_states) {
    Tensor x = hidden_states * 2.0;
    const Tensor y = proj(x);
    x += 1.0;
    return x + y;
  }
  Tensor after_a_saved_result(const Tensor& hidden_states) {
    Tensor x = hidden_states * 2.0;
    x.mul_(2.0);
    x.relu_();
    x *= 0.5;
    return proj(x);
  }
  Tensor kept(const Tensor& hidden_states) {
    std::vector<Tensor> all;
    Tensor x = hidden_states * 2.0;
    all.push_back(x);
    x += 1.0;
    return torch::cat(all, 0);
  }
  Tensor in_lambda(const Tensor& hidden_states) {
    Tensor x = hidden_states * 2.0;
    const auto change = [&x] { x.add_(1.0); };
    change();
    return x;
  }

  nn::Linear proj;
  Tensor scale;
};
TORCH_MODULE(AlphaInPlace);

}  // namespace modular::alpha
