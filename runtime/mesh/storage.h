// Frees and allocates the storage of a tensor. This works even if other tensors (views) or a backend thread, for a
// while after its work has finished, still refer to it.
#pragma once

#include <ATen/ATen.h>

namespace modular {

/// Allocates the storage of `flat`; the values are undefined.
inline void allocate_storage(const at::Tensor& flat) {
  c10::StorageImpl* storage = flat.storage().unsafeGetStorageImpl();
  const size_t bytes = static_cast<size_t>(flat.numel()) * flat.element_size();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

/// Frees the storage. Neither `flat` nor a view of it may be read or written until it is allocated again.
inline void free_storage(const at::Tensor& flat) {
  c10::StorageImpl* storage = flat.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(0));
  storage->set_nbytes(0);
}

inline bool has_storage(const at::Tensor& flat) { return flat.storage().nbytes() > 0; }

}  // namespace modular
