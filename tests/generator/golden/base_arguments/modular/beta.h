// The base's parameters bound to extra, default and literal arguments, which decide conditions, and to expressions.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaNormImpl : public alpha::AlphaNormImpl {
 public:
  explicit BetaNormImpl(const alpha::AlphaConfig& config) : AlphaNormImpl(config.inner_size.value_or(4 * 2), 1e-5) {}
};
TORCH_MODULE(BetaNorm);

class BetaPlainNormImpl : public alpha::AlphaNormImpl {
 public:
  BetaPlainNormImpl(int64_t rows, int64_t columns, int64_t extra)
      : AlphaNormImpl(rows * columns, /*eps=*/alpha::kAlphaEps * 10, false, "plain"), extra(extra) {}

  int64_t extra;
};
TORCH_MODULE(BetaPlainNorm);

}  // namespace modular::beta
