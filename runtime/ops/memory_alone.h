#pragma once

#include <ATen/ATen.h>

namespace modular {

/// Whether no tensor but this one can read its memory. A view keeps its base.
inline bool has_memory_alone(const at::Tensor& tensor) {
  const bool is_view = tensor.is_view();
  return tensor.storage().use_count() == (is_view ? 2 : 1) && (!is_view || tensor._base().use_count() == 1);
}

}  // namespace modular
