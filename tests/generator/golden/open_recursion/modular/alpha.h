// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaSizeImpl : public Module {
 public:
  AlphaSizeImpl() { size = value(); }

  virtual int64_t value() { return 1; }
  virtual double scaled(double factor = 1.0) { return factor * static_cast<double>(size); }
  double run() { return scaled(); }

  int64_t size;
};
TORCH_MODULE(AlphaSize);

}  // namespace modular::alpha
