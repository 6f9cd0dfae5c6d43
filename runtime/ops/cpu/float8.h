#pragma once

#include "runtime/ops/float8.h"

namespace modular::cpu {

/// CPU implementation of runtime/ops/float8.h.
Float8 to_float8(const at::Tensor& matrix, at::ScalarType type, Float8Layout layout, const at::Tensor& largest);

}  // namespace modular::cpu
