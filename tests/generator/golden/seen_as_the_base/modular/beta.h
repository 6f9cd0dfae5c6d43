// Code that sees an object as one of the base names members that the class does not declare again, or virtual ones. A
// callback for the layers that a model has names any: in the family, they are the family's.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  struct Part {
    const alpha::AlphaBox& of;
  };
  int64_t value() const { return 10; }
  int64_t depth() const override { return 30; }
  int64_t sum() const {
    const alpha::AlphaBox* all[] = {this};
    const Part part{*this};
    return part.of.width() + all[0]->width() + all[0]->depth() + alpha::doubled(*this) +
           alpha::area(static_cast<const alpha::AlphaBox&>(*this)) +
           with([](const auto& box) { return box.width() + box.depth(); });
  }
};

struct BetaLayer : alpha::AlphaLayer {
  int64_t value() const { return 40; }
};

struct BetaModel : alpha::AlphaModel {
  int64_t value() const {
    int64_t sum = AlphaModel::value();
    each([&](const auto& layer) { sum += layer.value(); });
    return sum;
  }
};

}  // namespace modular::beta
