// Calls within calls: each is followed twice for every time that the one around it is.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

class AlphaProjectionImpl : public Module {
 public:
  explicit AlphaProjectionImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) { return call0(x); }

  Tensor call0(const Tensor& x) { return call1(call1(x)); }
  Tensor call1(const Tensor& x) { return call2(call2(x)); }
  Tensor call2(const Tensor& x) { return call3(call3(x)); }
  Tensor call3(const Tensor& x) { return call4(call4(x)); }
  Tensor call4(const Tensor& x) { return call5(call5(x)); }
  Tensor call5(const Tensor& x) { return call6(call6(x)); }
  Tensor call6(const Tensor& x) { return call7(call7(x)); }
  Tensor call7(const Tensor& x) { return call8(call8(x)); }
  Tensor call8(const Tensor& x) { return call9(call9(x)); }
  Tensor call9(const Tensor& x) { return call10(call10(x)); }
  Tensor call10(const Tensor& x) { return call11(call11(x)); }
  Tensor call11(const Tensor& x) { return call12(call12(x)); }
  Tensor call12(const Tensor& x) { return call13(call13(x)); }
  Tensor call13(const Tensor& x) { return call14(call14(x)); }
  Tensor call14(const Tensor& x) { return call15(call15(x)); }
  Tensor call15(const Tensor& x) { return call16(call16(x)); }
  Tensor call16(const Tensor& x) { return call17(call17(x)); }
  Tensor call17(const Tensor& x) { return call18(call18(x)); }
  Tensor call18(const Tensor& x) { return proj(x); }

  nn::Linear proj;
};
TORCH_MODULE(AlphaProjection);

}  // namespace modular::alpha
