// Random numbers of any part of a tensor, by counter: an element's number follows from the key and its place in the
// whole tensor alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "runtime/model/init.h"

namespace modular {

/// Elements [offset, offset + shape) of a tensor of `whole` that is drawn from `from`, float32 in host memory. A normal
/// number's tails end after 5.3 deviations, as 23 bits are drawn of each number.
at::Tensor draw_part(const init::Distribution& from, uint64_t key, at::IntArrayRef whole, at::IntArrayRef offset,
                     at::IntArrayRef shape);

}  // namespace modular
