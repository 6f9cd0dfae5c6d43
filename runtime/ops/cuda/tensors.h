// Conversion of CUDA tensors to kernel arguments.
#pragma once

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_bf16.h>

namespace modular::cuda {

/// Calls body(stream), which launches kernels, with the tensor's device current.
template <class Body>
void with_stream(const at::Tensor& tensor, Body&& body) {
  const c10::cuda::CUDAGuard device_guard(tensor.device());
  body(static_cast<cudaStream_t>(c10::cuda::getCurrentCUDAStream()));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

/// Calls body(T{}, stream) with the tensor's element type for the kernels and the tensor's device current.
template <class Body>
void with_element_type(const at::Tensor& tensor, Body&& body) {
  with_stream(tensor, [&](cudaStream_t stream) {
    if (tensor.scalar_type() == at::kFloat) {
      body(float{}, stream);
    } else {
      TORCH_INTERNAL_ASSERT(tensor.scalar_type() == at::kBFloat16);
      body(__nv_bfloat16{}, stream);
    }
  });
}

/// Whether kernels may read the tensor 16 bytes at a time.
inline bool is_aligned(const at::Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
}

// Null if the tensor is undefined.
template <class T>
const T* read(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<const T*>(tensor.const_data_ptr()) : nullptr;
}

template <class T>
T* write(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.mutable_data_ptr()) : nullptr;
}

}  // namespace modular::cuda
