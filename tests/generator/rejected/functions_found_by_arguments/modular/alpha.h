// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

template <class T>
std::string alpha_described(const std::vector<T>& all) {
  std::string text;
  for (const T& one : all) text += described(one);
  return text;
}

struct AlphaPart {
  int64_t n = 1;
};
inline std::string described(const AlphaPart& part) { return std::to_string(part.n); }

struct AlphaBox {
  std::vector<AlphaPart> parts;
  std::string text() const { return alpha_described(parts); }
};

}  // namespace modular::alpha
