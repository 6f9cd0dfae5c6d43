#include "runtime/ops/float8.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "runtime/model/module.h"
#include "runtime/ops/operations.h"

namespace modular {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kValues = at::kFloat8_e4m3fn, kGradients = at::kFloat8_e5m2;

/// Caches the last input in float8: layers that read the same input, such as query, key and value projections, convert
/// it once.
class LastInput {
 public:
  const Float8& convert(const Tensor& x, const Tensor& rows) {
    if (!tensor_ || tensor_->lock().get() != x.unsafeGetTensorImpl() || version_ != x._version()) {
      tensor_.emplace(x.getIntrusivePtr());
      version_ = x._version();
      float8_ = to_float8(rows, kValues, {.values = true, .transposed = true});
    }
    return float8_;
  }
  void forget() { tensor_.reset(), float8_ = {}; }

 private:
  std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> tensor_;  // keeps its address from being reused
  uint32_t version_ = 0;
  Float8 float8_;
};
thread_local LastInput last_input;

struct Float8Linear : torch::autograd::Function<Float8Linear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias, bool is_transposed) {
    const Tensor rows = x.reshape({-1, x.size(-1)}).contiguous();
    const Float8 input = last_input.convert(x, rows);
    const Float8 by = to_float8(weight.contiguous(), kValues, {.values = !is_transposed, .transposed = is_transposed});
    // No copy of the weight is kept: FSDP reshards it.
    context->save_for_backward({weight.requires_grad() ? input.transposed : Tensor(), input.scale,
                                x.requires_grad() ? weight : Tensor(), by.largest});
    context->saved_data["is_transposed"] = is_transposed;
    context->saved_data["has_bias"] = bias.has_value();
    // The result must not be a view, which could not be modified in place.
    const at::AutoDispatchBelowADInplaceOrView below;
    const Tensor y = float8_matmul(input.values, input.scale, is_transposed ? by.transposed : by.values, by.scale, bias,
                                   /*is_fast=*/true);
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = y.size(1);
    return at::_unsafe_view(y, sizes);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    last_input.forget();
    const auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &input_scale = saved[1], &weight = saved[2];
    const bool is_transposed = context->saved_data["is_transposed"].toBool();
    const Tensor rows = grads[0].reshape({-1, grads[0].size(-1)}).contiguous();
    const bool needs_x = context->needs_input_grad(0), needs_weight = context->needs_input_grad(1);
    variable_list gradients(4);
    if (needs_x || needs_weight) {
      const Float8 grad = to_float8(rows, kGradients, {.values = needs_x, .transposed = needs_weight});
      if (needs_x) {
        const Float8 by = to_float8(weight.contiguous(), kValues,
                                    {.values = is_transposed, .transposed = !is_transposed}, /*largest=*/saved[3]);
        auto sizes = grads[0].sizes().vec();
        sizes.back() = weight.size(is_transposed ? 0 : 1);
        gradients[0] =
            at::_unsafe_view(float8_matmul(grad.values, grad.scale, is_transposed ? by.values : by.transposed, by.scale,
                                           std::nullopt, /*is_fast=*/false),
                             sizes);
      }
      if (needs_weight)
        gradients[1] = is_transposed ? float8_matmul(input, input_scale, grad.transposed, grad.scale, std::nullopt,
                                                     /*is_fast=*/false)
                                     : float8_matmul(grad.transposed, grad.scale, input, input_scale, std::nullopt,
                                                     /*is_fast=*/false);
    }
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2)) gradients[2] = rows.sum(0);
    return gradients;
  }
};

bool fits(const Tensor& x, const Tensor& weight) {
  const auto divides = [](int64_t size) { return size > 0 && size % kFloat8Multiple == 0; };
  return x.scalar_type() == at::kBFloat16 && weight.scalar_type() == at::kBFloat16 && weight.dim() == 2 &&
         divides(weight.size(0)) && divides(weight.size(1)) && x.dim() > 0 && x.numel() > 0 &&
         divides(x.numel() / x.size(-1)) && operations_for(x.device()) && operations_for(x.device())->to_float8;
}

}  // namespace

Float8 to_float8(const Tensor& matrix, at::ScalarType type, Float8Layout layout, const Tensor& largest) {
  return operations_for(matrix.device())->to_float8(matrix, type, layout, largest);
}

Tensor float8_matmul(const Tensor& a, const Tensor& a_scale, const Tensor& b, const Tensor& b_scale,
                     const std::optional<Tensor>& bias, bool is_fast) {
  if (!a.is_cpu()) return at::_scaled_mm(a, b.t(), a_scale, b_scale, bias, /*scale_result=*/{}, at::kBFloat16, is_fast);
  const Tensor result = a.to(at::kFloat).mm(b.to(at::kFloat).t()).mul_(a_scale * b_scale);
  return (bias ? result.add_(bias->to(at::kFloat)) : result).to(at::kBFloat16);
}

Tensor float8_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, bool is_transposed) {
  const auto added = bias.defined() ? std::optional(bias) : std::nullopt;
  return fits(x, weight) ? Float8Linear::apply(x, weight, added, is_transposed)
                         : detail::plain_matmul(x, weight, bias, is_transposed);
}

}  // namespace modular
