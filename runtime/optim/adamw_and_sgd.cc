// Rules that update every element independently, by fused kernels, so that the result does not depend on how the
// parameters are sharded.
//
// AdamW (Loshchilov & Hutter, Decoupled Weight Decay Regularization), with ATen's fused kernel, or with our own for
// bfloat16 gradients.
//
// SGD with momentum (Polyak; Nesterov; Sutskever et al., On the importance of initialization and momentum in deep
// learning), as in torch.optim.SGD: the decay is added to the gradient, and the momentum is the sum of gradients, not
// their mean.
#include "runtime/ops/adamw.h"

#include "runtime/optim/update_rule.h"

namespace modular {
namespace {

std::vector<ShardedParameter> adamw_state(const ShardedParameter& parameter, const OptimizerOptions&, const Mesh&) {
  return {state_like(parameter, "exp_avg"), state_like(parameter, "exp_avg_sq")};
}

bool has_compute_copy(const ShardedParameter& parameter) {
  return parameter.rounded.defined() && parameter.grad.scalar_type() == at::kBFloat16 &&
         has_adamw(parameter.local.device());
}

void adamw_update(std::span<const Updated> parameters, const Step& step) {
  std::vector<at::Tensor> locals, grads, exp_avgs, exp_avg_sqs, steps;
  std::vector<AdamWParameter> with_compute_copy;
  for (const auto& [parameter, moments, holders] : parameters) {
    if (parameter->local.numel() == 0) continue;
    if (has_compute_copy(*parameter)) {
      with_compute_copy.push_back({.value = parameter->local,
                                   .exp_avg = moments[0].local,
                                   .exp_avg_sq = moments[1].local,
                                   .gradient = parameter->grad.contiguous(),
                                   .compute_copy = parameter->rounded});
      parameter->compute_copy_is_fresh = true;
      continue;
    }
    locals.push_back(parameter->local);
    grads.push_back(parameter->grad.to(at::kFloat).contiguous());
    exp_avgs.push_back(moments[0].local);
    exp_avg_sqs.push_back(moments[1].local);
    steps.push_back(step.number_on_device);
  }
  const OptimizerOptions& options = step.options;
  adamw(with_compute_copy,
        adamw_factors(step.lr, options.beta1, options.beta2, options.eps, step.weight_decay, step.number),
        step.scale.divisor, step.scale.skipped);
  if (locals.empty()) return;
  at::_fused_adamw_(locals, grads, exp_avgs, exp_avg_sqs, /*max_exp_avg_sqs=*/{}, steps, step.lr, options.beta1,
                    options.beta2, step.weight_decay, options.eps, /*amsgrad=*/false, /*maximize=*/false,
                    step.scale.divisor, step.scale.skipped);
}

std::vector<ShardedParameter> sgd_state(const ShardedParameter& parameter, const OptimizerOptions& options,
                                        const Mesh&) {
  if (options.momentum == 0.0) return {};
  return {state_like(parameter, "momentum_buffer")};
}

void sgd_update(std::span<const Updated> parameters, const Step& step) {
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

const UpdateRule kAdamW = {
    .state = adamw_state, .update = adamw_update, .scales_gradients = true, .takes_bf16_gradients = true};

const UpdateRule kSgd = {.state = sgd_state, .update = sgd_update, .scales_gradients = true};

}  // namespace modular
