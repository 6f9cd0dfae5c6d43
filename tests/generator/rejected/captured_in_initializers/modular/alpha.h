// The base of beta.h: a lambda in an initializer copies a parameter.
#pragma once

#include <functional>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaScale {
  explicit AlphaScale(double factor) : scale([=](double x) { return x * factor; }) {}

  std::function<double(double)> scale;
};

}  // namespace modular::alpha
