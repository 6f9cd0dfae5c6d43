// AdamW (Loshchilov & Hutter, Decoupled Weight Decay Regularization), with ATen's fused kernel. Every element is
// updated on its own, so the result does not depend on how the parameters are cut into boxes.
#include "runtime/optim/update_rule.h"

namespace modular {
namespace {

std::vector<ShardedParameter> state(const ShardedParameter& parameter, const OptimizerOptions&, const Mesh&) {
  return {kept_beside(parameter, "exp_avg"), kept_beside(parameter, "exp_avg_sq")};
}

void update(std::span<const Updated> parameters, const Step& step) {
  std::vector<at::Tensor> locals, grads, exp_avgs, exp_avg_sqs, steps;
  for (const auto& [parameter, moments, holders] : parameters) {
    if (parameter->local.numel() == 0) continue;
    locals.push_back(parameter->local);
    grads.push_back(parameter->grad.contiguous());
    exp_avgs.push_back(moments[0].local);
    exp_avg_sqs.push_back(moments[1].local);
    steps.push_back(step.number_there);
  }
  if (locals.empty()) return;
  const OptimizerOptions& options = step.options;
  at::_fused_adamw_(locals, grads, exp_avgs, exp_avg_sqs, /*max_exp_avg_sqs=*/{}, steps, step.lr, options.beta1,
                    options.beta2, step.weight_decay, options.eps, /*amsgrad=*/false, /*maximize=*/false,
                    step.scale.divisor, step.scale.skipped);
}

}  // namespace

const UpdateRule kAdamW = {.state = state, .update = update, .scales_gradients = true};

}  // namespace modular
