// Counter-based random values for any slice of a tensor: the value of an element depends only on the key and the
// element's index in the full tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "runtime/model/init.h"

namespace modular {

/// Writes elements [offset, offset + part's shape) of a tensor of shape `global_shape` that is sampled from `from`.
/// Values are sampled in float32 in host memory, in place if `part` is float32 host memory.
void fill_slice(const init::Distribution& from, uint64_t key, at::IntArrayRef global_shape, at::IntArrayRef offset,
                const at::Tensor& part);

}  // namespace modular
