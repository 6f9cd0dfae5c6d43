// From tensors to what the kernels take.
#pragma once

#include <ATen/ATen.h>

#include "runtime/model/dropout.h"
#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

/// Whether the kernels know the tensor's element type.
inline bool has_kernels(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16;
}

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

/// What `drawn` drops of row `row` of the batch: of a value's plane of which `first_column` is the first column that is
/// here.
inline Drop to_drop(const DropoutRng& drawn, int64_t row, int64_t plane, int64_t first_column) {
  return {.key = {static_cast<uint32_t>(drawn.key), static_cast<uint32_t>(drawn.key >> 32)},
          .sample = static_cast<uint32_t>(drawn.samples.const_data_ptr<int64_t>()[row]),
          .plane = static_cast<uint32_t>(plane),
          .threshold = static_cast<uint32_t>(plain::dropout_threshold(drawn.p)),
          .scale = static_cast<float>(1.0 / (1.0 - drawn.p)),
          .first_column = first_column};
}

}  // namespace modular::cpu
