// Classes and enums inside methods and classes, friends and abbreviated templates, with values that are split over tp.
#pragma once

#include "modular/tiny.h"

namespace modular::inner_types {
MODULAR_FAMILY(InnerTypes);

class InnerTypesMLPImpl : public tiny::TinyMLPImpl {
 public:
  using TinyMLPImpl::TinyMLPImpl;

  struct Features {
    Tensor values;
    double scale = 0.5;
    Tensor scaled() const { return values * scale; }
  };
  struct Range {
    double low = -0.5, high = 2.0;
    bool operator==(const Range& other) const = default;
  };

  Tensor forward(const Tensor& x) {
    enum Kind { kPlain, kScaled };
    struct Sum {
      Tensor total;
      explicit Sum(const Tensor& first) : total(first) {}
      void add(const Tensor& value) { total = total + value; }
    };
    struct {
      double factor = 0.75;
    } last;
    const Features features{up_proj(x)};
    const Kind kind = range == Range{} ? kPlain : kScaled;
    Sum sum(features.scaled());
    if (kind == kPlain) sum.add(features.values);
    return down_proj(weighted(sum.total, last.factor)) + ranged(x, *this);
  }

  Tensor weighted(const Tensor& value, auto factor) { return activation("gelu", value) * factor; }

  friend Tensor ranged(const Tensor& value, const InnerTypesMLPImpl& of) { return value * of.range.low; }

  Range range;
};
TORCH_MODULE(InnerTypesMLP);

using InnerTypesForCausalLM MODEL_ENTRY("causal-lm") = tiny::TinyForCausalLM;
}  // namespace modular::inner_types
