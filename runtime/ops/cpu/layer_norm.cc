#include "runtime/ops/cpu/replacements.h"

#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "runtime/ops/cpu/kernels.h"
#include "runtime/ops/cpu/parallel.h"
#include "runtime/ops/cpu/tensors.h"
#include "runtime/ops/replace_kernels.h"

namespace modular::cpu {
namespace {

using at::Tensor;

/// `scale` in float32; if there is none, `fallback` for each element.
Tensor wide(const std::optional<Tensor>& scale, int64_t hidden, float fallback) {
  if (scale && scale->defined()) return scale->to(at::kFloat).contiguous();
  return at::full({hidden}, fallback, at::kFloat);
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm(const Tensor& x_given, c10::SymIntArrayRef symbolic_shape,
                                                     const std::optional<Tensor>& weight,
                                                     const std::optional<Tensor>& bias, double eps) {
  const auto shape = C10_AS_INTARRAYREF_SLOW(symbolic_shape);
  if (!is_norm_of_rows(x_given, shape, weight, bias))
    return at::cpu::native_layer_norm(x_given, shape, weight, bias, eps);
  const Tensor x = x_given.contiguous();
  const int64_t hidden = x.size(-1), rows = x.numel() / hidden;
  const Tensor y = at::empty_like(x), scales = wide(weight, hidden, 1.0F), shifts = wide(bias, hidden, 0.0F);
  auto sizes = x.sizes().vec();
  sizes.back() = 1;
  const Tensor mean = at::empty(sizes, x.options().dtype(at::kFloat)), inverse_deviation = at::empty_like(mean);
  with_element_type(x, [&](auto element) {
    using T = decltype(element);
    const T* from = read<T>(x);
    const float *scale = read<float>(scales), *shift = read<float>(shifts);
    T* to = write<T>(y);
    float *means = write<float>(mean), *inverses = write<float>(inverse_deviation);
    parallel_ranges(rows, rows_per_piece(hidden), [&](int64_t first, int64_t last) {
      kernels<T>().layer_norm(from + first * hidden, scale, shift, to + first * hidden, means + first, inverses + first,
                              last - first, hidden, static_cast<float>(eps));
    });
  });
  return {y, mean, inverse_deviation};
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm_backward(const Tensor& grad_given, const Tensor& x_given,
                                                              c10::SymIntArrayRef symbolic_shape, const Tensor& mean,
                                                              const Tensor& inverse_deviation,
                                                              const std::optional<Tensor>& weight,
                                                              const std::optional<Tensor>& bias,
                                                              std::array<bool, 3> wanted) {
  const auto shape = C10_AS_INTARRAYREF_SLOW(symbolic_shape);
  if (!is_norm_of_rows(x_given, shape, weight, bias) || grad_given.scalar_type() != x_given.scalar_type() ||
      mean.scalar_type() != at::kFloat)
    return at::cpu::native_layer_norm_backward(grad_given, x_given, shape, mean, inverse_deviation, weight, bias,
                                               wanted);
  const Tensor x = x_given.contiguous(), grad = grad_given.contiguous();
  const int64_t hidden = x.size(-1), rows = x.numel() / hidden;
  const Tensor dx = at::empty_like(x), scales = wide(weight, hidden, 1.0F);
  const Tensor means = mean.contiguous(), inverses = inverse_deviation.contiguous();
  const RowPieces pieces(rows, hidden);
  const Tensor partial = at::zeros({2, pieces.count, hidden}, x.options().dtype(at::kFloat));
  with_element_type(x, [&](auto element) {
    using T = decltype(element);
    const T *upstream = read<T>(grad), *from = read<T>(x);
    T* to = write<T>(dx);
    const float *scale = read<float>(scales), *middle = read<float>(means), *inverse = read<float>(inverses);
    float* sums = write<float>(partial);
    pieces.for_each([&](int64_t piece, int64_t first, int64_t last) {
      kernels<T>().layer_norm_backward(upstream + first * hidden, from + first * hidden, scale, middle + first,
                                       inverse + first, to + first * hidden, sums + piece * hidden,
                                       sums + (pieces.count + piece) * hidden, last - first, hidden);
    });
  });
  const auto summed = [&](size_t output, int64_t index) {
    return wanted[output] ? partial[index].sum(0).to(x.scalar_type()) : Tensor();
  };
  return {wanted[0] ? dx : Tensor(), summed(1, 0), summed(2, 1)};
}

}  // namespace

void install_layer_norm() {
  replace_kernels([](torch::Library& library) {
    library.impl("native_layer_norm", native_layer_norm);
    library.impl("native_layer_norm_backward", native_layer_norm_backward);
  });
}

}  // namespace modular::cpu
