// The base of beta.h, with a function template of which one instance differs.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaSizeImpl : public Module {
 public:
  int64_t size() { return 1; }
};
TORCH_MODULE(AlphaSize);

template <class Number>
int64_t rounded(Number number) {
  return static_cast<int64_t>(number);
}
template <>
inline int64_t rounded<double>(double number) {
  return static_cast<int64_t>(number + 0.5);
}

}  // namespace modular::alpha
