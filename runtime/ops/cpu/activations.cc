#include "runtime/ops/cpu/operations.h"

#include <ATen/CPUFunctions.h>

#include "runtime/ops/cpu/parallel.h"
#include "runtime/ops/cpu/tensors.h"
#include "runtime/ops/replace_kernels.h"

namespace modular::cpu {
namespace {

using at::Tensor;

bool has_loops(const Tensor& x) { return has_kernels(x) && x.numel() > 0; }

Activation to_gelu(std::string_view approximate) {
  return approximate == "tanh" ? Activation::gelu_tanh : Activation::gelu;
}

Tensor gelu(const Tensor& x, std::string_view approximate) {
  if (!has_loops(x) || (approximate != "tanh" && approximate != "none")) return at::cpu::gelu(x, approximate);
  return activate(to_gelu(approximate), x);
}

Tensor gelu_backward(const Tensor& grad, const Tensor& x, std::string_view approximate) {
  if (!has_loops(x) || grad.scalar_type() != x.scalar_type() || grad.sizes() != x.sizes())
    return at::cpu::gelu_backward(grad, x, approximate);
  return activate_backward(to_gelu(approximate), grad, x);
}

Tensor silu(const Tensor& x) { return has_loops(x) ? activate(Activation::silu, x) : at::cpu::silu(x); }

Tensor silu_backward(const Tensor& grad, const Tensor& x) {
  if (!has_loops(x) || grad.scalar_type() != x.scalar_type() || grad.sizes() != x.sizes())
    return at::cpu::silu_backward(grad, x);
  return activate_backward(Activation::silu, grad, x);
}

}  // namespace

Tensor activate(Activation function, const Tensor& x_given) {
  const Tensor x = x_given.is_non_overlapping_and_dense() ? x_given : x_given.contiguous();
  const Tensor y = at::empty_strided(x.sizes(), x.strides(), x.options());
  with_element_type(x, [&](auto element) {
    using T = decltype(element);
    const T* from = read<T>(x);
    T* to = write<T>(y);
    parallel_ranges(x.numel(), kGrain, [&](int64_t first, int64_t last) {
      kernels<T>().activate(function, from + first, to + first, last - first);
    });
  });
  return y;
}

Tensor activate_backward(Activation function, const Tensor& grad_given, const Tensor& x_given) {
  const bool same_layout = x_given.is_non_overlapping_and_dense() && x_given.strides() == grad_given.strides();
  const Tensor x = same_layout ? x_given : x_given.contiguous(),
               grad = same_layout ? grad_given : grad_given.contiguous();
  const Tensor dx = at::empty_strided(x.sizes(), x.strides(), x.options());
  with_element_type(x, [&](auto element) {
    using T = decltype(element);
    const T *upstream = read<T>(grad), *from = read<T>(x);
    T* to = write<T>(dx);
    parallel_ranges(x.numel(), kGrain, [&](int64_t first, int64_t last) {
      kernels<T>().activate_backward(function, upstream + first, from + first, to + first, last - first);
    });
  });
  return dx;
}

void install_activations() {
  replace_kernels([](torch::Library& library) {
    library.impl("gelu", gelu);
    library.impl("gelu_backward", gelu_backward);
    library.impl("silu", silu);
    library.impl("silu_backward", silu_backward);
  });
}

}  // namespace modular::cpu
