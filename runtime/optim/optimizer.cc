#include "runtime/optim/optimizer.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "runtime/parallel/parameters/parameter_table.h"
#include "runtime/parallel/step/dry_run_hooks.h"

namespace modular {
namespace {

bool decays(const ShardedParameter& parameter) { return parameter.global_shape.size() >= 2 && !parameter.is_rate; }

/// Elements of state per parameter element, for optimizers whose state does not depend on options. Adafactor's rows and
/// columns are negligible.
template <int elements>
double least_state(const OptimizerOptions&) {
  return elements;
}

double momentum_state(const OptimizerOptions& options) { return options.momentum > 0.0 ? 1.0 : 0.0; }

const UpdateRule& select_rule(const OptimizerKind& kind, bool layer_matrix) {
  return layer_matrix ? *kind.layer_matrix_rule : *kind.other_rule;
}

void widen_gradients(std::span<const Updated> parameters) {
  for (const Updated& updated : parameters) updated.parameter->grad = updated.parameter->grad.to(at::kFloat);
}

void divide_gradients(std::span<const Updated> parameters, const at::Tensor& divisor) {
  std::vector<at::Tensor> gradients;
  for (const Updated& updated : parameters) gradients.push_back(updated.parameter->grad);
  if (!gradients.empty()) at::_foreach_div_(gradients, divisor);
}

}  // namespace

const std::vector<OptimizerKind>& optimizer_kinds() {
  static const std::vector<OptimizerKind> kinds = {
      {"adamw", &kAdamW, &kAdamW, {"beta1", "beta2", "eps"}, least_state<2>},
      {"sgd", &kSgd, &kSgd, {"momentum", "nesterov"}, momentum_state},
      {"adafactor", &kAdafactor, &kAdafactor, {"beta2_decay", "eps1", "eps2", "clip_threshold"}, least_state<0>},
      {"muon",
       &kMuon,
       &kAdamW,
       {"momentum", "nesterov", "ns_steps", "adjust_lr", "beta1", "beta2", "eps"},
       least_state<1>},
  };
  return kinds;
}

const OptimizerKind& optimizer_kind(std::string_view name) {
  const auto found = std::ranges::find(optimizer_kinds(), name, &OptimizerKind::name);
  if (found == optimizer_kinds().end()) throw std::invalid_argument("unknown optimizer " + std::string(name));
  return *found;
}

const ParameterGroup* find_group(const std::vector<ParameterGroup>& groups, const std::vector<std::string>& names) {
  const auto matched = [&](const ParameterGroup& group) {
    return std::ranges::any_of(group.match, [&](const std::string& pattern) {
      return std::ranges::any_of(names, [&](const std::string& name) { return lies_in(pattern, name); });
    });
  };
  const auto last = std::find_if(groups.rbegin(), groups.rend(), matched);
  return last == groups.rend() ? nullptr : &*last;
}

Optimizer::Optimizer(std::vector<ShardedParameter>& parameters, const OptimizerOptions& options, Mesh& mesh)
    : options_(options), mesh_(mesh) {
  const OptimizerKind& kind = optimizer_kind(options.name);
  std::vector<size_t> state_begin = {0};
  for (const ShardedParameter& parameter : parameters) {
    if (parameter.trainable) {
      TORCH_INTERNAL_ASSERT(parameter.local.is_contiguous(), "the slice of ", parameter.name, " is not contiguous");
      std::ranges::move(select_rule(kind, parameter.layer_matrix).state(parameter, options, mesh),
                        std::back_inserter(state_));
    }
    state_begin.push_back(state_.size());
  }

  for (size_t i = 0; i < parameters.size(); ++i) {
    ShardedParameter& parameter = parameters[i];
    if (!parameter.trainable) continue;
    const UpdateRule* rule = &select_rule(kind, parameter.layer_matrix);
    double lr_scale = 1.0, weight_decay = decays(parameter) ? options.weight_decay : 0.0;
    if (const auto* group = find_group(options.groups, parameter.names)) {
      lr_scale = group->lr_scale;
      weight_decay = group->weight_decay.value_or(weight_decay);
    }
    auto bucket = std::ranges::find_if(buckets_, [&](const Bucket& other) {
      return other.rule == rule && other.lr_scale == lr_scale && other.weight_decay == weight_decay;
    });
    if (bucket == buckets_.end()) bucket = buckets_.insert(bucket, {rule, lr_scale, weight_decay, {}, {}});
    bucket->members.push_back(
        {&parameter, std::span(state_).subspan(state_begin[i], state_begin[i + 1] - state_begin[i]), nullptr});
  }

  for (Bucket& bucket : buckets_) {
    if (bucket.rule->axes.empty()) continue;
    std::vector<const ShardedParameter*> members;
    std::ranges::transform(bucket.members, std::back_inserter(members), &Updated::parameter);
    bucket.holders = find_holders(members, mesh.group(bucket.rule->axes), mesh.device());
    for (size_t i = 0; i < members.size(); ++i) bucket.members[i].holders = &bucket.holders[i];
  }
  const at::Device device = parameters.empty() ? mesh.device() : parameters.front().local.device();
  steps_on_device_ = at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(device));
}

std::optional<GradientScale> Optimizer::get_scale(const Clipping& clipping) const {
  const auto on_device = [&](const at::Tensor& number) { return number.to(steps_on_device_.device()); };
  GradientScale scale;
  if (clipping.divisor.defined()) {
    const at::Tensor divisor = on_device(clipping.divisor);
    // If the host can see the divisor, no pass over the gradients is made for a divisor of 1.
    if (!divisor.is_cpu() || divisor.item<double>() > 1.0) scale.divisor = divisor.to(at::kFloat);
  }
  if (clipping.skipped.defined()) {
    const at::Tensor skipped = on_device(clipping.skipped);
    const bool host_decides =
        std::ranges::any_of(buckets_, [](const Bucket& bucket) { return !bucket.rule->scales_gradients; });
    if (!skipped.is_cpu() && !host_decides)
      scale.skipped = skipped.to(at::kFloat);
    else if (skipped.item<double>() != 0.0 && values_are_known)
      return {};
  }
  return scale;
}

void Optimizer::step(double lr, const Clipping& clipping) {
  RECORD_USER_SCOPE("optimizer");
  at::NoGradGuard no_grad;
  steps_on_device_.fill_(static_cast<double>(++steps_));
  const std::optional<GradientScale> scale = get_scale(clipping);
  if (!scale) return;
  for (const Bucket& bucket : buckets_) {
    std::vector<Updated> updated;
    std::ranges::copy_if(bucket.members, std::back_inserter(updated),
                         [](const Updated& member) { return member.parameter->grad.defined(); });
    if (!bucket.rule->takes_bf16_gradients) widen_gradients(updated);
    if (scale->divisor && !bucket.rule->scales_gradients) divide_gradients(updated, *scale->divisor);
    bucket.rule->update(updated, {.number = steps_,
                                  .number_on_device = steps_on_device_,
                                  .lr = lr * bucket.lr_scale,
                                  .weight_decay = bucket.weight_decay,
                                  .scale = *scale,
                                  .options = options_,
                                  .mesh = mesh_});
  }
}

}  // namespace modular
