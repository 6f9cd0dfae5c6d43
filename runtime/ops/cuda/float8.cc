#include "runtime/ops/cuda/float8.h"

#include "runtime/ops/cuda/operations.h"
#include "runtime/ops/cuda/tensors.h"

namespace modular::cuda {

Float8 to_float8(const at::Tensor& given, at::ScalarType type, Float8Layout layout, const at::Tensor& largest) {
  const at::Tensor matrix = is_aligned(given) ? given : given.clone();
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  const auto numbers = matrix.options().dtype(type), float32 = matrix.options().dtype(at::kFloat);
  Float8 result = {.largest = largest.defined() ? largest : at::zeros({}, float32), .scale = at::empty({}, float32)};
  if (layout.values) result.values = at::empty({rows, columns}, numbers);
  if (layout.transposed) result.transposed = at::empty({columns, rows}, numbers);
  with_stream(matrix, [&](cudaStream_t stream) {
    const auto* const x = read<__nv_bfloat16>(matrix);
    if (!largest.defined()) launch_largest(x, matrix.numel(), write<float>(result.largest), stream);
    launch_to_float8(type == at::kFloat8_e5m2, x, read<float>(result.largest), write<unsigned char>(result.values),
                     write<unsigned char>(result.transposed), write<float>(result.scale), rows, columns, stream);
  });
  return result;
}

}  // namespace modular::cuda
