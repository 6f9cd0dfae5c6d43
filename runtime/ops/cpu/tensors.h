// From tensors to what the kernels take.
#pragma once

#include <ATen/ATen.h>

#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

/// Calls body(T{}) with the element type that the kernels know: float or Bf16.
template <class Body>
auto with_element_type(const at::Tensor& tensor, Body&& body) {
  if (tensor.scalar_type() == at::kFloat) return body(float{});
  TORCH_INTERNAL_ASSERT(tensor.scalar_type() == at::kBFloat16);
  return body(Bf16{});
}

template <class T>
const T* read(const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

template <class T>
T* write(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

}  // namespace modular::cpu
