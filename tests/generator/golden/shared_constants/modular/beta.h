// Several classes share constants of which code reads the values alone. Objects are seen as their base, not copied as
// one.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaScale : alpha::AlphaScale {
  double own() const { return factor + static_cast<double>(sizes[1]); }
};

struct BetaOther : alpha::AlphaScale {
  std::string name() const { return names.back(); }
};

struct BetaShape : alpha::AlphaShape {
  int64_t area() const override { return 2; }
  int64_t by_pointers() const {
    const std::vector<const alpha::AlphaShape*> all = {this};
    return all[0]->area() + alpha::doubled(*this);
  }
  int64_t by_elements() const {
    std::vector<BetaShape> all;
    all.push_back(*this);
    const std::optional<BetaShape> one(*this);
    return all[0].area() + one->area();
  }
};

struct BetaShapes {
  struct Larger : BetaShape {
    int64_t area() const { return 7; }
  };
  static int64_t area_of(const BetaShape& shape) { return shape.area(); }
  static int64_t largest() { return area_of(Larger()); }
};

}  // namespace modular::beta
