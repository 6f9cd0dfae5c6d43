// The base of beta.h.
#pragma once

#include <string>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

#define SHOW(x) (std::string(#x) + std::to_string(x))
#define WHERE __func__

inline constexpr int64_t kAlphaGain = 3;

template <class T>
std::string alpha_type_name() {
  return __PRETTY_FUNCTION__;
}

inline std::string alpha_name() { return WHERE; }

struct AlphaBox {
  int64_t size = 4;
  std::string show() const { return SHOW(kAlphaGain); }
  std::string show_size() const { return SHOW(size); }  // the same in every family
  void check() const { TORCH_CHECK(size > kAlphaGain); }
};

struct AlphaRow {
  bool is_own() const { return alpha_type_name<AlphaBox>().find("Alpha") != std::string::npos; }
};

struct AlphaNamed {
  std::string name() const { return alpha_name(); }
};

#undef SHOW
#undef WHERE

}  // namespace modular::alpha
