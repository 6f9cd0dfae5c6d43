// Conversion of tensors to kernel arguments.
#pragma once

#include <ATen/ATen.h>

#include "runtime/model/dropout.h"
#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

/// Whether the kernels support the tensor's element type.
inline bool has_kernels(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16;
}

/// Calls body(T{}) with the tensor's element type for the kernels: float or Bf16.
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

/// Dropout by `rng` of a plane of row `row` of the batch; `first_column` is the first column of this slice.
inline Drop to_drop(const DropoutRng& rng, int64_t row, int64_t plane, int64_t first_column) {
  return {.key = {static_cast<uint32_t>(rng.key), static_cast<uint32_t>(rng.key >> 32)},
          .sample = static_cast<uint32_t>(rng.samples.const_data_ptr<int64_t>()[row]),
          .plane = static_cast<uint32_t>(plane),
          .threshold = static_cast<uint32_t>(plain::dropout_threshold(rng.p)),
          .scale = static_cast<float>(1.0 / (1.0 - rng.p)),
          .first_row = rng.first_row,
          .first_column = first_column};
}

}  // namespace modular::cpu
