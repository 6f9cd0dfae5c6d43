#include "runtime/ops/cuda/operations.h"

#include <ATen/ATen.h>
#include <ATen/ops/native_layer_norm_backward_cuda_dispatch.h>
#include <ATen/ops/native_layer_norm_cuda_dispatch.h>

#include <array>
#include <optional>
#include <tuple>

#include "runtime/ops/cuda/kernels.h"
#include "runtime/ops/cuda/tensors.h"
#include "runtime/ops/replace_kernels.h"

namespace modular::cuda {
namespace {

using at::Tensor;

Tensor contiguous(const std::optional<Tensor>& scale) {
  return scale && scale->defined() ? scale->contiguous() : Tensor();
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm(const Tensor& x_given, c10::SymIntArrayRef symbolic_shape,
                                                     const std::optional<Tensor>& weight_given,
                                                     const std::optional<Tensor>& bias_given, double eps) {
  const auto shape = C10_AS_INTARRAYREF_SLOW(symbolic_shape);
  if (!is_norm_of_rows(x_given, shape, weight_given, bias_given))
    return at::cuda::native_layer_norm(x_given, shape, weight_given, bias_given, eps);
  const Tensor x = x_given.contiguous(), weight = contiguous(weight_given), bias = contiguous(bias_given);
  const int64_t hidden = x.size(-1), rows = x.numel() / hidden;
  auto sizes = x.sizes().vec();
  sizes.back() = 1;
  const Tensor y = at::empty_like(x), mean = at::empty(sizes, x.options().dtype(at::kFloat));
  const Tensor inverse_deviation = at::empty_like(mean);
  with_element_type(x, [&](auto element, cudaStream_t stream) {
    using T = decltype(element);
    Launch<T>::layer_norm(read<T>(x), read<T>(weight), read<T>(bias), write<T>(y), write<float>(mean),
                          write<float>(inverse_deviation), rows, hidden, static_cast<float>(eps), stream);
  });
  return {y, mean, inverse_deviation};
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm_backward(
    const Tensor& grad_given, const Tensor& x_given, c10::SymIntArrayRef symbolic_shape, const Tensor& mean_given,
    const Tensor& inverse_deviation_given, const std::optional<Tensor>& weight_given,
    const std::optional<Tensor>& bias_given, std::array<bool, 3> wanted) {
  const auto shape = C10_AS_INTARRAYREF_SLOW(symbolic_shape);
  if (!is_norm_of_rows(x_given, shape, weight_given, bias_given) || grad_given.scalar_type() != x_given.scalar_type() ||
      mean_given.scalar_type() != at::kFloat)
    return at::cuda::native_layer_norm_backward(grad_given, x_given, shape, mean_given, inverse_deviation_given,
                                                weight_given, bias_given, wanted);
  const Tensor grad = grad_given.contiguous(), x = x_given.contiguous(), weight = contiguous(weight_given);
  const Tensor mean = mean_given.contiguous(), inverse_deviation = inverse_deviation_given.contiguous();
  const int64_t hidden = x.size(-1), rows = x.numel() / hidden;
  const int64_t blocks = norm_backward_blocks(/*is_layer_norm=*/true, rows, hidden);
  const Tensor dx = at::empty_like(x), partial = at::empty({2, blocks, hidden}, x.options().dtype(at::kFloat));
  with_element_type(x, [&](auto element, cudaStream_t stream) {
    using T = decltype(element);
    Launch<T>::layer_norm_backward(read<T>(grad), read<T>(x), read<T>(weight), read<float>(mean),
                                   read<float>(inverse_deviation), write<T>(dx), write<float>(partial), blocks, rows,
                                   hidden, stream);
  });
  Tensor sums;  // gradients of weight and bias
  if (wanted[1] || wanted[2]) sums = partial.sum(1).to(x.scalar_type());
  return {wanted[0] ? dx : Tensor(), wanted[1] ? sums[0] : Tensor(), wanted[2] ? sums[1] : Tensor()};
}

}  // namespace

void install_layer_norm() {
  replace_kernels(
      [](torch::Library& library) {
        library.impl("native_layer_norm", native_layer_norm);
        library.impl("native_layer_norm_backward", native_layer_norm_backward);
      },
      c10::DispatchKey::CUDA);
}

}  // namespace modular::cuda
