// The other base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::other {
MODULAR_FAMILY(Other);

class OtherProjectionImpl : public Module {
 public:
  OtherProjectionImpl() = default;
  Tensor forward(const Tensor& x) { return x; }
};
TORCH_MODULE(OtherProjection);

class OtherUserImpl : public Module {
 public:
  OtherUserImpl() : inner(register_module("inner", OtherProjection())) {}
  Tensor forward(const Tensor& x) { return inner(x); }
  OtherProjection inner;
};
TORCH_MODULE(OtherUser);

}  // namespace modular::other
