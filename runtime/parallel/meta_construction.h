// Building a model without its memory.
#pragma once

#include "runtime/model/registry.h"

namespace modular {

/// Constructs `entry` with all parameters on the meta device: shapes and types without storage. libtorch's C++ modules
/// take no device, so every factory operator that runs meanwhile has its `device` argument rewritten. Throws
/// ConfigError where sizes are more than a tensor can have, or layers reject their settings.
Model build_on_meta(const Entry& entry, const AnyConfig& config);

/// Turns the registered meta tensor `parameter` into one that has the values, shape, type and device of `real`, whose
/// storage it shares from then on. Module members, registry and autograd keep seeing the same tensor.
void make_real(at::Tensor& parameter, const at::Tensor& real);

}  // namespace modular
