#include "runtime/ops/cuda/float8.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "runtime/ops/cuda/operations.h"

namespace modular::cuda {

Float8 to_float8(const at::Tensor& given, at::ScalarType type, Float8Layout layout, const at::Tensor& largest) {
  const c10::cuda::CUDAGuard on_its_device(given.device());
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  const bool is_aligned = reinterpret_cast<uintptr_t>(given.const_data_ptr()) % 16 == 0;
  const at::Tensor matrix = is_aligned ? given : given.clone();
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  const auto numbers = matrix.options().dtype(type), float32 = matrix.options().dtype(at::kFloat);
  Float8 result = {.largest = largest.defined() ? largest : at::zeros({}, float32), .scale = at::empty({}, float32)};
  if (layout.values) result.values = at::empty({rows, columns}, numbers);
  if (layout.transposed) result.transposed = at::empty({columns, rows}, numbers);
  const auto* const x = static_cast<const __nv_bfloat16*>(matrix.const_data_ptr());
  const auto bytes = [](const at::Tensor& tensor) {
    return tensor.defined() ? static_cast<unsigned char*>(tensor.mutable_data_ptr()) : nullptr;
  };
  if (!largest.defined()) launch_largest(x, matrix.numel(), result.largest.mutable_data_ptr<float>(), stream);
  launch_to_float8(type == at::kFloat8_e5m2, x, result.largest.const_data_ptr<float>(), bytes(result.values),
                   bytes(result.transposed), result.scale.mutable_data_ptr<float>(), rows, columns, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

}  // namespace modular::cuda
