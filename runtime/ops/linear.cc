#include "runtime/ops/linear.h"

#include <ATen/ATen.h>
#include <ATen/CompositeImplicitAutogradFunctions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>
#include <vector>

#include "runtime/ops/replace_kernels.h"

namespace modular {
namespace {

using at::Tensor;

constexpr int64_t kAligned = 8;  // 16-bit elements per 16 bytes

int64_t padded(int64_t features) { return (features + kAligned - 1) / kAligned * kAligned; }

/// Whether each row, including the last, is followed by memory up to padded() that only this tensor holds.
bool has_room(const Tensor& tensor, int64_t features) {
  if (tensor.stride(-1) != 1 || !has_exclusive_memory(tensor)) return false;
  for (int64_t dim = tensor.dim() - 2, rows = padded(features); dim >= 0; rows *= tensor.size(dim--))
    if (tensor.stride(dim) != rows) return false;
  const int64_t rows = tensor.numel() / features;
  return static_cast<int64_t>(tensor.storage().nbytes()) >=
         (tensor.storage_offset() + rows * padded(features)) * static_cast<int64_t>(tensor.itemsize());
}

}  // namespace

bool is_worth_padding(const Tensor& x, const Tensor& weight) {
  constexpr int64_t kRows = 128, kFeatures = 1024;  // smaller GEMMs do not matter for a step's time
  return !x.is_cpu() && x.itemsize() == 2 && weight.size(0) % kAligned != 0 && weight.size(0) >= kFeatures &&
         weight.size(1) % kAligned == 0 && x.numel() >= kRows * weight.size(1);
}

Tensor padded_weight(const Tensor& weight) {
  return at::constant_pad_nd(weight, {0, 0, 0, padded(weight.size(0)) - weight.size(0)});
}

Tensor padded_linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  const int64_t out = weight.size(0);
  const Tensor rows = x.reshape({-1, x.size(-1)}), right = padded_weight(weight).t();
  const Tensor y =
      bias ? at::addmm(at::constant_pad_nd(*bias, {0, padded(out) - out}), rows, right) : at::mm(rows, right);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = padded(out);
  return y.view(sizes).narrow(-1, 0, out);
}

Tensor padded_gradient(const Tensor& grad) {
  const int64_t features = grad.size(-1), rows = grad.numel() / features, more = padded(features) - features;
  if (!has_room(grad, features)) return at::constant_pad_nd(grad.reshape({rows, features}), {0, more});
  const Tensor padded_grad = grad.detach().as_strided({rows, padded(features)}, {padded(features), 1});
  padded_grad.narrow(1, features, more).zero_();
  return padded_grad;
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Linear : torch::autograd::Function<Linear> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias) {
    // Each is saved for the gradient of the other.
    context->save_for_backward({weight.requires_grad() ? x : Tensor(), x.requires_grad() ? weight : Tensor()});
    context->saved_data["has_bias"] = bias.has_value();
    const bool pads = is_worth_padding(x, weight);
    context->saved_data["pads"] = pads;
    // The result must not be a view, which could not be modified in place.
    const at::AutoDispatchBelowADInplaceOrView below;
    return pads ? padded_linear(x, weight, bias) : at::compositeimplicitautograd::linear(x, weight, bias);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const int64_t out = grads[0].size(-1);
    const bool pads = context->saved_data["pads"].toBool();
    const Tensor grad = pads ? padded_gradient(grads[0]) : grads[0].reshape({-1, out});
    variable_list gradients(3);
    if (context->needs_input_grad(0)) {
      auto sizes = grads[0].sizes().vec();
      sizes.back() = weight.size(1);
      gradients[0] = at::_unsafe_view(at::mm(grad, pads ? padded_weight(weight) : weight), sizes);
    }
    if (context->needs_input_grad(1)) {
      const Tensor padded = at::mm(grad.t(), x.reshape({-1, x.size(-1)}));
      gradients[1] = pads ? padded.narrow(0, 0, out) : padded;  // autograd does not accumulate in place into a view
    }
    if (context->saved_data["has_bias"].toBool() && context->needs_input_grad(2))
      gradients[2] = (pads ? grad.narrow(1, 0, out) : grad).sum(0);
    return gradients;
  }
};

Tensor linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& given_bias) {
  const std::optional<Tensor> bias = given_bias && given_bias->defined() ? given_bias : std::nullopt;
  const bool is_layer = at::isFloatingType(x.scalar_type()) && x.dim() > 0 && weight.dim() == 2 && x.numel() > 0 &&
                        weight.numel() > 0 && (!bias || bias->dim() == 1);
  if (is_layer && at::GradMode::is_enabled()) return Linear::apply(x, weight, bias);
  return is_layer && is_worth_padding(x, weight) ? padded_linear(x, weight, bias)
                                                 : at::compositeimplicitautograd::linear(x, weight, bias);
}

}  // namespace

void install_linear() {
  static const bool installed = [] {
    static std::vector<torch::Library> libraries;
    for (const auto device :
         {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA, c10::DispatchKey::AutogradPrivateUse1})
      libraries.emplace_back(torch::Library::IMPL, "aten", device, __FILE__, __LINE__).impl("linear", linear);
    return true;
  }();
  (void)installed;
}

}  // namespace modular
