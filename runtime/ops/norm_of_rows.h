#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace modular {

/// Whether a LayerNorm has kernels of ours: over the last dimension alone, of float32 or bfloat16 numbers that lie
/// where, and are of the type that, weight and bias are, if there are any.
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
