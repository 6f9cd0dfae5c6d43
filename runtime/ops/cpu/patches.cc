#include "runtime/ops/cpu/replacements.h"

#include <ATen/ATen.h>
#include <ATen/CompositeExplicitAutogradFunctions.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "runtime/ops/cpu/tensors.h"
#include "runtime/ops/replace_kernels.h"

namespace modular::cpu {
namespace {

using at::Tensor;

bool cuts_into_patches(const Tensor& image, const Tensor& weight, c10::SymIntArrayRef symbolic_stride,
                       c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
                       const c10::SymInt& groups) {
  const auto all = [](const auto& values, int64_t expected) {
    return std::ranges::all_of(values, [=](const auto& value) { return value == expected; });
  };
  const c10::IntArrayRef stride = C10_AS_INTARRAYREF_SLOW(symbolic_stride);
  const c10::IntArrayRef window = weight.dim() == 4 ? weight.sizes().slice(2) : c10::IntArrayRef();
  return image.dim() == 4 && weight.dim() == 4 && !transposed && groups == 1 && all(padding, 0) && all(dilation, 1) &&
         (stride.size() == 1 ? all(window, stride[0]) : window == stride) && window[0] * window[1] > 1 &&
         image.size(1) == weight.size(1) && image.size(2) >= window[0] && image.size(3) >= window[1] &&
         image.numel() > 0 && image.scalar_type() == weight.scalar_type() && has_kernels(image);
}

/// Rows and columns of patches in an image [batch, channels, height, width].
struct Grid {
  int64_t batch, channels, rows, columns, patch_rows, patch_columns;

  Grid(const Tensor& image, const Tensor& weight)
      : batch(image.size(0)),
        channels(image.size(1)),
        rows(image.size(2) / weight.size(2)),
        columns(image.size(3) / weight.size(3)),
        patch_rows(weight.size(2)),
        patch_columns(weight.size(3)) {}

  /// The part of the image that full patches cover.
  Tensor covered(const Tensor& image) const {
    return image.narrow(2, 0, rows * patch_rows).narrow(3, 0, columns * patch_columns);
  }
  /// [batch * rows * columns, channels * patch_rows * patch_columns]
  Tensor patches(const Tensor& image) const {
    return covered(image)
        .unflatten(3, {columns, patch_columns})
        .unflatten(2, {rows, patch_rows})
        .permute({0, 2, 4, 1, 3, 5})
        .reshape({batch * rows * columns, channels * patch_rows * patch_columns});
  }
};

Tensor convolution(const Tensor& image, const Tensor& weight, const std::optional<Tensor>& bias,
                   c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                   bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  if (!cuts_into_patches(image, weight, stride, padding, dilation, transposed, groups))
    return at::compositeexplicitautograd::convolution_symint(image, weight, bias, stride, padding, dilation, transposed,
                                                             output_padding, groups);
  const Grid grid(image, weight);
  const Tensor patches = grid.patches(image), by_output = weight.flatten(1).t();
  const Tensor projected = bias && bias->defined() ? at::addmm(*bias, patches, by_output) : at::mm(patches, by_output);
  return projected.view({grid.batch, grid.rows, grid.columns, -1})
      .permute({0, 3, 1, 2})
      .contiguous(image.suggest_memory_format());  // the memory format of libtorch's result
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad, const Tensor& image, const Tensor& weight,
                                                        at::OptionalSymIntArrayRef bias_sizes,
                                                        c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                                                        c10::SymIntArrayRef dilation, bool transposed,
                                                        c10::SymIntArrayRef output_padding, c10::SymInt groups,
                                                        std::array<bool, 3> wanted) {
  if (!cuts_into_patches(image, weight, stride, padding, dilation, transposed, groups))
    return at::compositeexplicitautograd::convolution_backward_symint(
        grad, image, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, wanted);
  const Grid grid(image, weight);
  const Tensor by_patch = grad.permute({0, 2, 3, 1}).reshape({-1, weight.size(0)});
  std::tuple<Tensor, Tensor, Tensor> gradients;
  if (wanted[0]) {
    Tensor& image_gradient = std::get<0>(gradients) = at::zeros_like(image, at::MemoryFormat::Contiguous);
    const Tensor patch_gradient = at::mm(by_patch, weight.flatten(1));
    grid.covered(image_gradient)
        .unflatten(3, {grid.columns, grid.patch_columns})
        .unflatten(2, {grid.rows, grid.patch_rows})
        .copy_(patch_gradient
                   .view({grid.batch, grid.rows, grid.columns, grid.channels, grid.patch_rows, grid.patch_columns})
                   .permute({0, 3, 1, 4, 2, 5}));
  }
  if (wanted[1]) std::get<1>(gradients) = at::mm(by_patch.t(), grid.patches(image)).view(weight.sizes());
  if (wanted[2]) std::get<2>(gradients) = by_patch.sum(0);
  return gradients;
}

}  // namespace

void install_patches() {
  replace_kernels([](torch::Library& library) {
    library.impl("convolution", convolution);
    library.impl("convolution_backward", convolution_backward);
  });
}

}  // namespace modular::cpu
