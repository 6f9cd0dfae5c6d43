// A spec with an include guard, which inside of its namespace names other namespaces' declarations.

#ifndef MODULAR_ALPHA_H
#define MODULAR_ALPHA_H

#include <algorithm>
#ifdef __linux__
#include <unistd.h>
#endif

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

namespace F = torch::nn::functional;
using std::max;
using torch::nn::functional::ReLUFuncOptions;
using std::string, std::vector;

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  string hidden_act = "relu";
  vector<int64_t> sizes;
};

inline int64_t alpha_width(const AlphaConfig& config) { return max<int64_t>(config.hidden_size, 4); }

/// One linear layer.
class AlphaProjectionImpl : public Module {
 public:
  explicit AlphaProjectionImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, alpha_width(config), /*bias=*/false))) {}

  Tensor forward(const Tensor& x) { return F::relu(proj(x), ReLUFuncOptions(/*inplace=*/false)); }

  nn::Linear proj;
};

}  // namespace modular::alpha

#endif  // MODULAR_ALPHA_H
