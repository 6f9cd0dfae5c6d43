// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

/// The sum of all.
template <class First, class... Rest>
auto alpha_sum(const First& first, const Rest&... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return first;
  } else {
    return first + alpha_sum(rest...);
  }
}

struct AlphaShift {
  double by = 1.0;
  Tensor operator()(const Tensor& x) const { return x + by; }
  AlphaShift operator+(const AlphaShift& other) const { return {by + other.by}; }
  bool operator==(const AlphaShift&) const = default;
  explicit operator double() const { return by; }
};

struct AlphaSum {
  template <class... Numbers>
  explicit AlphaSum(Numbers... numbers) : sum((numbers + ... + 0.0)) {}
  double sum;
};

class AlphaApplyImpl : public Module {
 public:
  AlphaApplyImpl() = default;

  template <class Function>
  Tensor apply(const Tensor& x, Function&& function) {
    return std::forward<Function>(function)(x);
  }

  template <bool kTwice>
  Tensor shifted(const Tensor& x) {
    if constexpr (kTwice)
      return apply(x, shift + shift);
    else
      return apply(x, shift);
  }

  Tensor forward(const Tensor& x) {
    const auto with_gain = [this](const Tensor& y) { return alpha_sum(y * gain, y, shift(y)); };
    return shifted<true>(apply(x, with_gain));
  }

  double gain = 2.0;
  AlphaShift shift;
};
TORCH_MODULE(AlphaApply);

}  // namespace modular::alpha
