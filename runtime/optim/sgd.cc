// Stochastic gradient descent with momentum (Polyak; Nesterov; Sutskever et al., On the importance of initialization
// and momentum in deep learning), as in torch.optim.SGD: the decay is added to the gradient, and the momentum is the
// sum of gradients, not their mean.
#include "runtime/optim/update_rule.h"

namespace modular {
namespace {

std::vector<ShardedParameter> state(const ShardedParameter& parameter, const OptimizerOptions& options, const Mesh&) {
  if (options.momentum == 0.0) return {};
  return {state_like(parameter, "momentum_buffer")};
}

void update(std::span<const Updated> parameters, const Step& step) {
  const OptimizerOptions& options = step.options;
  std::vector<at::Tensor> locals, grads, buffers;
  for (const auto& [parameter, momentum, holders] : parameters) {
    if (parameter->local.numel() == 0) continue;
    locals.push_back(parameter->local);
    grads.push_back(parameter->grad.contiguous());
    if (!momentum.empty()) buffers.push_back(momentum[0].local);
  }
  if (locals.empty()) return;
  at::_fused_sgd_(locals, grads, buffers, step.weight_decay, options.momentum, step.lr, /*dampening=*/0.0,
                  options.nesterov && options.momentum > 0.0, /*maximize=*/false, /*is_first_step=*/false,
                  step.scale.divisor, step.scale.skipped);
}

}  // namespace

const UpdateRule kSgd = {.state = state, .update = update, .scales_gradients = true};

}  // namespace modular
