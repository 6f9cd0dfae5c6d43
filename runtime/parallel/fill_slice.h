// Random numbers of any part of a tensor, by counter: an element's number follows from the key and its place in the
// full tensor alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "runtime/model/init.h"

namespace modular {

/// Writes elements [offset, offset + part's shape) of a tensor of the shape `whole` that is drawn from `from`. Drawn in
/// float32 and in host memory: in place where `part` is there.
void fill_slice(const init::Distribution& from, uint64_t key, at::IntArrayRef whole, at::IntArrayRef offset,
                const at::Tensor& part);

}  // namespace modular
