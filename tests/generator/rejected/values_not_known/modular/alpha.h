// Values that nothing is known about, and where they must not go.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  int64_t vocab_size = 16;
};

inline double changing = 1.0;
inline const double kChosen = std::strtod(std::getenv("CHOSEN"), nullptr);
inline int64_t now() { return std::clock(); }
inline Tensor scaled(const Tensor& x, double scale = std::rand()) { return x * scale; }

struct AlphaDefault {
  Tensor one;
  double scale = std::rand();
};

struct AlphaUnset {
  explicit AlphaUnset(const Tensor& x) { held = x; }
  Tensor scaled() const { return held * scale; }
  Tensor held;
  double scale;
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        bag(register_module("bag", nn::EmbeddingBag(16, 8))) {
    params = parameters();
  }

  Tensor by_function(const Tensor& x) {
    const char* text = std::getenv("SCALE");
    return down(up(x) * std::strtod(text, nullptr));
  }
  Tensor by_member(const Tensor& x) { return down(up(x) * params[0].sum()); }
  Tensor by_object(const Tensor& x) {
    std::random_device device;
    const double scale = static_cast<double>(device());
    return down(up(x) * scale);
  }
  Tensor by_static_variable(const Tensor& x) {
    static Tensor kept;
    return down(up(x) * kept);
  }
  Tensor by_variable(const Tensor& x) { return down(up(x) * changing); }
  Tensor by_constant(const Tensor& x) { return down(up(x) * kChosen); }
  Tensor by_default_argument(const Tensor& x) { return down(scaled(up(x))); }
  Tensor by_default_member(const Tensor& x) {
    AlphaDefault made;
    made.one = up(x);
    return down(made.one * made.scale);
  }
  Tensor by_unset_member(const Tensor& x) {
    const AlphaUnset made(x);
    return down(up(x) * made.scaled().mean());
  }
  Tensor by_lambda(const Tensor& x) {
    const auto scale = [] { return std::clock(); };
    return down(up(x) * scale());
  }
  Tensor by_captured(const Tensor& x) {
    const int64_t scale = std::clock();
    const auto scaled_by = [scale](int64_t by) { return scale * by; };
    return down(up(x) * scaled_by(2));
  }
  Tensor by_pointer(const Tensor& x) {
    int64_t (*const scale)() = now;
    return down(up(x) * scale());
  }
  Tensor by_paths(const Tensor& x, bool flag) {
    int64_t scale = 1;
    if (flag) scale = std::clock();
    return down(up(x) * scale);
  }
  Tensor by_container(const Tensor& x) {
    std::vector<int64_t> scales = {1, std::clock()};
    return down(up(x) * scales[0] * scales[1]);
  }
  Tensor by_algorithm(const Tensor& x) {
    std::vector<int64_t> dims = {0, 0};
    std::iota(dims.begin(), dims.end(), -1);
    return down(up(x).softmax(dims[0]));
  }
  Tensor by_generator(const Tensor& x) {
    std::vector<int> scales(2);
    std::generate(scales.begin(), scales.end(), std::rand);
    return down(up(x) * scales[0]);
  }
  Tensor by_gradient(const Tensor& x) { return down(up(x) * x.grad().sum()); }
  Tensor by_layer(const Tensor& x) { return down(up(x) * bag(x).sum()); }
  Tensor of_condition(const Tensor& x) { return std::clock() > 1 ? down(up(x)) : x; }
  Tensor of_loop(const Tensor& x) {
    Tensor sum = x;
    for (int64_t i = 0; i < std::clock(); ++i) sum = sum + down(up(x));
    return sum;
  }
  Tensor of_layer(const Tensor& x) { return down(up(x * std::clock())); }
  Tensor in_place(const Tensor& x) {
    Tensor sum = torch::zeros({8}) + 1.0;
    sum += std::clock();
    return down(up(x)) + sum;
  }
  void kept(const Tensor& x) { steps = x.size(0) * std::clock(); }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  nn::EmbeddingBag bag;
  std::vector<Tensor> params;
  int64_t steps = 0;
};
TORCH_MODULE(AlphaLayers);

class MODEL_ENTRY("causal-lm") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        head(register_module("head", linear(config.hidden_size, config.vocab_size, false))) {}
  Outputs forward(const Batch& batch) {
    Outputs outputs;
    outputs.logits = head(embed(batch.input_ids)) * std::clock();
    return outputs;
  }
  nn::Embedding embed;
  nn::Linear head;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
