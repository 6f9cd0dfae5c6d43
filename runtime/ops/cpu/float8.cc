#include "runtime/ops/cpu/float8.h"

namespace modular::cpu {

Float8 to_float8(const at::Tensor& matrix, at::ScalarType type, Float8Layout layout, const at::Tensor& given) {
  const float most = type == at::kFloat8_e5m2 ? 57344.0F : 448.0F;
  const at::Tensor largest = given.defined() ? given : matrix.abs().max().to(at::kFloat);
  const at::Tensor scale = at::where(largest.gt(0.0), largest / most, at::ones_like(largest));
  const at::Tensor values = (matrix.to(at::kFloat) * (1.0 / scale)).clamp_(-most, most).to(type);
  return {.values = layout.values ? values : at::Tensor(),
          .transposed = layout.transposed ? values.t().contiguous() : at::Tensor(),
          .largest = largest,
          .scale = scale};
}

}  // namespace modular::cpu
