// Loops within loops: each is followed several times for every time that the one around it is.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

class AlphaProjectionImpl : public Module {
 public:
  explicit AlphaProjectionImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) {
    Tensor y = x;
    for (int64_t i0 = 0; i0 < x.dim(); ++i0)
      for (int64_t i1 = 0; i1 < x.dim(); ++i1)
        for (int64_t i2 = 0; i2 < x.dim(); ++i2)
          for (int64_t i3 = 0; i3 < x.dim(); ++i3)
            for (int64_t i4 = 0; i4 < x.dim(); ++i4)
              for (int64_t i5 = 0; i5 < x.dim(); ++i5)
                for (int64_t i6 = 0; i6 < x.dim(); ++i6)
                  for (int64_t i7 = 0; i7 < x.dim(); ++i7)
                    for (int64_t i8 = 0; i8 < x.dim(); ++i8)
                      for (int64_t i9 = 0; i9 < x.dim(); ++i9)
                        for (int64_t i10 = 0; i10 < x.dim(); ++i10)
                          for (int64_t i11 = 0; i11 < x.dim(); ++i11) y = y + proj(y);
    return y;
  }

  nn::Linear proj;
};
TORCH_MODULE(AlphaProjection);

}  // namespace modular::alpha
