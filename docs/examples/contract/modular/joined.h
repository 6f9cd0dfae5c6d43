// The norm of normed.h and the gate of gated.h.
#pragma once

#include "modular/gated.h"
#include "modular/normed.h"

namespace modular::joined {
MODULAR_FAMILY(Joined);

struct JoinedConfig : gated::GatedConfig {};

struct JoinedLayerImpl : Both<gated::GatedLayerImpl, normed::NormedLayerImpl> {};

}  // namespace modular::joined
