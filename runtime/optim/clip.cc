#include "runtime/optim/clip.h"

#include "runtime/mesh/collectives.h"

namespace modular {

double gradient_norm(const std::vector<ShardedParameter>& parameters, Mesh& mesh) {
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> owned;
  for (const auto& parameter : parameters)
    if (parameter.owner && parameter.grad.defined() && parameter.grad.numel() > 0) owned.push_back(parameter.grad);

  at::Tensor sum = at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(mesh.device()));
  if (!owned.empty()) sum = at::stack(at::_foreach_norm(owned, 2)).to(at::kDouble).square().sum();
  all_reduce(mesh.world(), sum, "the gradient norm").wait();
  return sum.sqrt().item<double>();
}

void clip_gradients(std::vector<ShardedParameter>& parameters, double norm, double max_norm) {
  if (max_norm <= 0.0 || norm <= max_norm) return;
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> grads;
  for (auto& parameter : parameters)
    if (parameter.grad.defined()) grads.push_back(parameter.grad);
  if (!grads.empty()) at::_foreach_mul_(grads, max_norm / norm);
}

}  // namespace modular
