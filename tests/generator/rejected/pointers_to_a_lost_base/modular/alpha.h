// A list of pointers to a base, which the flattened classes do not have.
#pragma once

#include <memory>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaLayer {
  virtual ~AlphaLayer() = default;
  virtual int64_t run(int64_t n) const { return n; }
};
struct AlphaRelu : AlphaLayer {
  int64_t run(int64_t n) const override { return AlphaLayer::run(n) + 10; }
};
struct AlphaNet {
  AlphaNet() { layers.push_back(std::make_shared<AlphaRelu>()); }
  void set() { layers[0] = std::make_shared<AlphaRelu>(); }
  std::shared_ptr<AlphaLayer> made() const { return std::make_shared<AlphaRelu>(); }
  std::vector<std::shared_ptr<AlphaLayer>> layers;
};

}  // namespace modular::alpha
