// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaReadImpl : public Module {
 public:
  AlphaReadImpl() : weight(register_parameter("weight", torch::ones({2}))), same(weight) {}

  Tensor weight;
  Tensor same;
};
TORCH_MODULE(AlphaRead);

}  // namespace modular::alpha
