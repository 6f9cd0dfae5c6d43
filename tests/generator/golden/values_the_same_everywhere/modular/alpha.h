// Results of known functions of values that are the same on every rank are the same on every rank.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

inline constexpr double kHalf = 0.5;
inline const std::map<std::string, double> kScales = {{"half", kHalf}, {"two", 2.0}};

/// The defaults of its members are followed.
struct AlphaDefaults {
  Tensor one;
  Tensor other = torch::ones({1});
  double scale = std::sqrt(2.0);
  std::optional<double> cap = std::nullopt;
};

struct AlphaNested {
  AlphaDefaults inner;
  int64_t dim = -2;
};

/// Its members are set by initializers with several arguments and without any.
struct AlphaMade {
  explicit AlphaMade(const Tensor& x) : all(2, x), none() {}
  std::vector<Tensor> all;
  Tensor none;
  double scale = 2.0;
};

inline Tensor scaled(const Tensor& x, double scale = kHalf, int64_t dim = -2) { return x.softmax(dim) * scale; }

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        mix(register_module("mix", nn::Conv1d(nn::Conv1dOptions(1, 1, 1)))),
        scales({1.0, 2.0}) {}

  Tensor by_members(const Tensor& x) {
    AlphaDefaults defaults;
    defaults.one = up(x);
    return down(defaults.one * defaults.scale * defaults.other * defaults.cap.value_or(1.0));
  }
  Tensor by_list(const Tensor& x) {
    const AlphaNested nested{{up(x)}};
    return down(nested.inner.one.softmax(nested.dim) * nested.inner.other);
  }
  Tensor by_constructor(const Tensor& x) {
    const AlphaMade made(x);
    return down(up(made.all[0]) * made.scale * (made.none.defined() ? 1.0 : 2.0));
  }
  Tensor by_default_arguments(const Tensor& x) { return down(scaled(up(x)) + scaled(up(x), 2.0)); }
  Tensor by_constants(const Tensor& x) { return down(up(x) * kScales.at("half") * kHalf); }
  Tensor by_functions(const Tensor& x) {
    const double norm = std::inner_product(scales.begin(), scales.end(), scales.begin(), 0.0);
    const auto most = std::max_element(scales.begin(), scales.end());
    return down(up(x) * std::clamp(norm, 0.0, 1.0) * *most);
  }
  Tensor by_array(const Tensor& x) {
    double scales_of[2];
    scales_of[0] = 0.5, scales_of[1] = 2.0;
    return down(up(x) * scales_of[1]);
  }
  Tensor by_layers(const Tensor& x) { return down(up(mix(x.unsqueeze(1)).squeeze(1))); }
  /// A value of which nothing is known may stay by itself.
  Tensor by_itself(const Tensor& x) {
    std::random_device device;
    const Tensor noise = x * static_cast<double>(device());
    return down(up(x));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  nn::Conv1d mix;
  std::vector<double> scales;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
