#include "runtime/optim/adamw.h"

namespace modular {

namespace {

ShardedParameter moment_of(const ShardedParameter& parameter, const std::string& name) {
  ShardedParameter moment = parameter;
  moment.name = "optimizer." + name + "." + parameter.name;
  moment.local = at::zeros_like(parameter.local, at::MemoryFormat::Contiguous);
  moment.grad.reset();
  return moment;
}

bool decays(const ShardedParameter& parameter) {
  return parameter.global_shape.size() >= 2 && !parameter.name.ends_with("A_log");
}

}  // namespace

AdamW::AdamW(std::vector<ShardedParameter>& parameters, const AdamWOptions& options)
    : parameters_(parameters), options_(options) {
  state_.reserve(2 * parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& parameter = parameters[i];
    if (!parameter.trainable) continue;
    trained_.push_back(i);
    TORCH_INTERNAL_ASSERT(parameter.local.is_contiguous(), "the box of ", parameter.name, " is not contiguous");
    state_.push_back(moment_of(parameter, "exp_avg"));
    state_.push_back(moment_of(parameter, "exp_avg_sq"));
  }
  const auto device = parameters.empty() ? at::Device(at::kCPU) : parameters.front().local.device();
  steps_ = at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(device));
}

void AdamW::step(double lr) {
  at::NoGradGuard no_grad;
  steps_ += 1;
  for (const bool decay : {true, false}) {
    std::vector<at::Tensor> locals, grads, exp_avgs, exp_avg_sqs, steps;
    for (size_t i = 0; i < trained_.size(); ++i) {
      const auto& parameter = parameters_[trained_[i]];
      if (decays(parameter) != decay || !parameter.grad.defined() || parameter.local.numel() == 0) continue;
      locals.push_back(parameter.local);
      grads.push_back(parameter.grad.contiguous());
      exp_avgs.push_back(state_[2 * i].local);
      exp_avg_sqs.push_back(state_[2 * i + 1].local);
      steps.push_back(steps_);
    }
    if (locals.empty()) continue;
    at::_fused_adamw_(locals, grads, exp_avgs, exp_avg_sqs, /*max_exp_avg_sqs=*/{}, steps, lr, options_.beta1,
                      options_.beta2, decay ? options_.weight_decay : 0.0, options_.eps, /*amsgrad=*/false,
                      /*maximize=*/false);
  }
}

int64_t AdamW::steps() const { return static_cast<int64_t>(steps_.item<float>()); }

void AdamW::set_steps(int64_t steps) { steps_.fill_(static_cast<double>(steps)); }

}  // namespace modular
