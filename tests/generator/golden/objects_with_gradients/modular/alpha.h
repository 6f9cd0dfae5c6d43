// What comes out of lambdas, containers and optionals carries a gradient, which layers that are split over tp sum.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

struct AlphaBox {
  Tensor held;
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor of_lambda(const Tensor& x) {
    const auto twice = [x] { return x * 2.0; };
    return down(up(twice()));
  }
  Tensor of_function(const Tensor& x) {
    const std::function<Tensor(double)> scaled = [&x](double scale) { return x * scale; };
    return down(up(scaled(2.0)));
  }
  Tensor of_map(const Tensor& x) {
    std::map<std::string, Tensor> all;
    all.emplace("x", x);
    return down(up(all.at("x")));
  }
  Tensor of_deque(const Tensor& x) {
    std::deque<Tensor> all;
    all.push_back(x);
    return down(up(all.front()));
  }
  Tensor of_vector(const Tensor& x) {
    std::vector<Tensor> all = {torch::ones({2, 4})};
    all.emplace_back(x);
    return down(up(torch::cat(all, -1)));
  }
  Tensor of_optional(const Tensor& x) {
    std::optional<Tensor> one = torch::ones({2, 8});
    one.emplace(x);
    return down(up(*one));
  }
  Tensor of_structs(const Tensor& x) {
    std::vector<AlphaBox> all;
    all.push_back(AlphaBox{x});
    const auto take = [](const AlphaBox& one) { return one.held; };
    return down(up(take(all[0])));
  }
  Tensor of_map_of_structs(const Tensor& x) {
    std::map<std::string, AlphaBox> all;
    all.emplace("x", AlphaBox{x});
    const std::function<Tensor(const AlphaBox&)> take = [](const AlphaBox& one) { return one.held; };
    return down(up(take(all.at("x"))));
  }
  Tensor of_no_gradient() {
    const auto ones = [] { return torch::ones({2, 8}); };
    return down(up(ones()));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
