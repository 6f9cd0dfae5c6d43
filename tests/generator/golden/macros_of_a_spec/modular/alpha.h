// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha, .title = "alpha");

#define ALPHA_CHECK(condition, ...) TORCH_CHECK(condition, "alpha: ", __VA_ARGS__)
#define ALPHA_TWICE(x) ((x) + (x))
#define ALPHA_NAME "alpha"

inline constexpr int64_t kAlphaDims = 2;

class AlphaSafeImpl : public Module {
 public:
  AlphaSafeImpl() = default;
  Tensor forward(const Tensor& x) {
    ALPHA_CHECK(x.dim() == kAlphaDims, "wants a matrix");
    return ALPHA_TWICE(x * kAlphaDims);
  }
  std::string name() { return ALPHA_NAME; }
};
TORCH_MODULE(AlphaSafe);

#undef ALPHA_CHECK
#undef ALPHA_TWICE
#undef ALPHA_NAME

}  // namespace modular::alpha
