// Lists that are removed take the loops along that fill them, and do nothing else.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaModelImpl : public alpha::AlphaModelImpl {
 public:
  Tensor forward(const Tensor& x) { return x; }

 private:
  using AlphaModelImpl::gates;
  using AlphaModelImpl::layers;
  using AlphaModelImpl::widths;
};

class BetaWideModelImpl : public alpha::AlphaModelImpl {
 public:
  explicit BetaWideModelImpl(const alpha::AlphaConfig& config) : AlphaModelImpl(config) {
    remove(layers);
    layers = register_module("layers", ModuleListOf<alpha::AlphaLayer>());
    layers->push_back(alpha::AlphaLayer(config, 0));
  }
};

}  // namespace modular::beta
