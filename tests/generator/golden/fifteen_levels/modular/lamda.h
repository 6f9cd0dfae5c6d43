// Level 11 of the chain.
#pragma once

#include "modular/eta.h"
#include "modular/kappa.h"

namespace modular::lamda {
MODULAR_FAMILY(Lamda);

class LamdaProjectionImpl : public kappa::Its<eta::EtaProjectionImpl> {
 public:
  using EtaProjectionImpl::EtaProjectionImpl;

  Tensor forward(const Tensor& x) { return EtaProjectionImpl::forward(x) * 10.0; }
};
TORCH_MODULE(LamdaProjection);

}  // namespace modular::lamda
