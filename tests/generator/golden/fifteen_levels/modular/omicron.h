// The fifteenth level.
#pragma once

#include "modular/lamda.h"
#include "modular/nu.h"
#include "modular/xi.h"

namespace modular::omicron {
MODULAR_FAMILY(Omicron);

class OmicronProjectionImpl : public xi::Its<lamda::LamdaProjectionImpl> {
 public:
  using LamdaProjectionImpl::LamdaProjectionImpl;

  Tensor forward(const Tensor& x) { return LamdaProjectionImpl::forward(x) * 14.0; }
};
TORCH_MODULE(OmicronProjection);

using OmicronBlock = xi::Its<nu::NuBlock>;

}  // namespace modular::omicron
