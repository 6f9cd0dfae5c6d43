#pragma once

#include <ATen/ATen.h>

namespace modular {

/// Whether no other tensor can read the memory of this one. A view keeps its base alive.
inline bool has_exclusive_memory(const at::Tensor& tensor) {
  const bool is_view = tensor.is_view();
  return tensor.storage().use_count() == (is_view ? 2 : 1) && (!is_view || tensor._base().use_count() == 1);
}

}  // namespace modular
