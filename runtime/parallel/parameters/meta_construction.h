// Construction of a model without allocating its memory.
#pragma once

#include "runtime/model/registry.h"

namespace modular {

/// Constructs `entry` with all parameters on the meta device: shapes and types without storage. libtorch's C++ modules
/// take no device, so the `device` argument of every factory operator that runs during construction is rewritten.
/// Throws ConfigError if a tensor would exceed the maximum size, or a layer rejects its options.
Model build_on_meta(const Entry& entry, const AnyConfig& config);

/// Turns the registered meta tensor `parameter` into a tensor with the values, shape, type and device of `real`, whose
/// storage it then shares. Module members, the registry and autograd keep referring to the same tensor.
void make_real(at::Tensor& parameter, const at::Tensor& real);

}  // namespace modular
