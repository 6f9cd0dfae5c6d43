// The memory of a tensor, apart from the tensor: freeing it works also where others still refer to the tensor, as views
// do, and as a backend's thread does for a while after its work is done.
#pragma once

#include <ATen/ATen.h>

namespace modular {

/// Gives the storage of `flat` room for its elements, whose values are undefined.
inline void allocate_storage(const at::Tensor& flat) {
  c10::StorageImpl* storage = flat.storage().unsafeGetStorageImpl();
  const size_t bytes = static_cast<size_t>(flat.numel()) * flat.element_size();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

/// Frees it. Neither `flat` nor a view of it may be read or written until it is allocated again.
inline void free_storage(const at::Tensor& flat) {
  c10::StorageImpl* storage = flat.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(0));
  storage->set_nbytes(0);
}

inline bool has_storage(const at::Tensor& flat) { return flat.storage().nbytes() > 0; }

}  // namespace modular
