#pragma once

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <optional>
#include <utility>

namespace modular {

/// Whether no other tensor can read the memory of this one. A view keeps its base alive.
inline bool has_exclusive_memory(const at::Tensor& tensor) {
  const bool is_view = tensor.is_view();
  return tensor.storage().use_count() == (is_view ? 2 : 1) && (!is_view || tensor._base().use_count() == 1);
}

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

/// Calls `impl` to register kernels that replace libtorch's own on CPUs, or for the dispatch key `key`, for the rest of
/// the program. Calling it again from the same source location does nothing: each lambda `impl` has a type of its own.
template <class Impl>
void replace_kernels(Impl&& impl, c10::DispatchKey key = c10::DispatchKey::CPU) {
  static const torch::Library library = [&] {
    // Silences libtorch's warning that a kernel is overridden, which is intended.

    struct Silence final : c10::WarningHandler {
      void process(const c10::Warning&) override {}
    } silence;
    const c10::WarningUtils::WarningHandlerGuard guard(&silence);
    torch::Library replacing(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    std::forward<Impl>(impl)(replacing);
    return replacing;
  }();
}

}  // namespace modular
