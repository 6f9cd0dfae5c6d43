#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace modular {

/// Whether our LayerNorm kernels support these arguments: a norm over the last dimension only, of float32 or bfloat16,
/// with weight and bias, if there are any, of the same type and on the same device.
inline bool is_norm_of_rows(const at::Tensor& x, c10::IntArrayRef shape, const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias) {
  const auto fits = [&](const std::optional<at::Tensor>& scale) {
    return !scale || !scale->defined() ||
           (scale->scalar_type() == x.scalar_type() && scale->device() == x.device() && scale->sizes() == shape);
  };
  return (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) && x.numel() > 0 && shape.size() == 1 &&
         x.dim() > 0 && x.size(-1) == shape[0] && fits(weight) && fits(bias);
}

}  // namespace modular
