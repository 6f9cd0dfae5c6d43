#include "runtime/ops/cpu/linear.h"

#include <ATen/ATen.h>
#include <ATen/CompositeImplicitAutogradFunctions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>

namespace modular::cpu {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Linear : torch::autograd::Function<Linear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias) {
    // Each is kept for the other's gradient.
    context->save_for_backward({weight.requires_grad() ? x : Tensor(), x.requires_grad() ? weight : Tensor()});
    context->saved_data["has_bias"] = bias.has_value();
    const at::AutoDispatchBelowADInplaceOrView below;  // the result is no view, which could not be written to
    return at::compositeimplicitautograd::linear(x, weight, bias);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const Tensor grad = grads[0].reshape({-1, grads[0].size(-1)});
    variable_list gradients(3);
    if (context->needs_input_grad(0)) {
      auto sizes = grads[0].sizes().vec();
      sizes.back() = weight.size(1);
      gradients[0] = at::_unsafe_view(at::mm(grad, weight), sizes);
    }
    if (context->needs_input_grad(1)) gradients[1] = at::mm(grad.t(), x.reshape({-1, x.size(-1)}));
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2)) gradients[2] = grad.sum(0);
    return gradients;
  }
};

Tensor linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& given_bias) {
  const std::optional<Tensor> bias = given_bias && given_bias->defined() ? given_bias : std::nullopt;
  const bool of_layer = at::isFloatingType(x.scalar_type()) && x.dim() > 0 && weight.dim() == 2 && x.numel() > 0 &&
                        weight.numel() > 0 && (!bias || bias->dim() == 1);
  if (!of_layer || !at::GradMode::is_enabled()) return at::compositeimplicitautograd::linear(x, weight, bias);
  return Linear::apply(x, weight, bias);
}

}  // namespace

void install_linear() {
  static const bool installed = [] {
    static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCPU, __FILE__, __LINE__);
    library.impl("linear", linear);
    return true;
  }();
  (void)installed;
}

}  // namespace modular::cpu
