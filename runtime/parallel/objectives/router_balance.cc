#include "runtime/parallel/objectives/router_balance.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "runtime/mesh/collectives.h"
#include "runtime/model/cp.h"
#include "runtime/model/tp.h"
#include "runtime/parallel/step/dry_run_hooks.h"

namespace modular {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Identity of x. Its backward passes the value that `gradient` then has as the gradient of `value` (after
/// Megatron-LM's MoEAuxLossAutoScaler).
struct WithGradient : torch::autograd::Function<WithGradient> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& value, const Tensor& gradient) {
    context->saved_data["gradient"] = gradient;
    context->saved_data["type"] = static_cast<int64_t>(value.scalar_type());
    return x;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    return {gradients[0], context->saved_data["gradient"].toTensor().to(type), Tensor()};
  }
};

}  // namespace

RouterBalance::RouterBalance(const RouterOptions& options, int64_t experts, Mesh& mesh)
    : options_(options),
      numbers_(at::TensorOptions().dtype(at::kDouble).device(mesh.device())),
      experts_(experts),
      tp_(mesh.group({Axis::tp})),
      score_gradient_(at::zeros({experts}, numbers_)) {
  if (!needs_counts()) return;
  std::vector<Axis> axes = kLossAxes;
  axes.push_back(Axis::pp);
  routers_of_step_ = mesh.group(axes);
}

void RouterBalance::begin_step(TrainingStep& step) {
  int64_t positions = 0, sequences = 0;
  for (const Batch& batch : step.micro_batches) {
    positions +=
        batch.attention_mask.defined() ? batch.attention_mask.ne(0).sum().item<int64_t>() : batch.leading().numel();
    sequences += batch.leading().size(0);
  }
  counts_at_ = step.counts.size();
  step.counts.insert(step.counts.end(), {static_cast<double>(positions), static_cast<double>(sequences)});
}

void RouterBalance::before_forwards(const TrainingStep& step) {
  positions_ = std::max(step.counts[counts_at_], 1.0);
  sequences_ = std::max(step.counts[counts_at_ + 1], 1.0);
  counts_ = true;
  routers_.clear();
  rows_ = at::zeros({}, numbers_);
  loss_ = at::zeros({}, numbers_);
  score_sums_ = at::zeros({experts_}, numbers_);

  if (!needs_counts() || step.is_one_forward) return;
  const at::NoGradGuard no_grad;
  only_counts_ = true;
  step.run_forwards();
  only_counts_ = false;
  sum_counts();
}

void RouterBalance::before_forward(const Batch& batch, int64_t stage) {
  const Tensor& tokens = batch.leading();
  const Tensor mask = batch.attention_mask.defined() ? batch.attention_mask.ne(0).to(at::kDouble)
                      : tokens.dim() == 2            ? at::ones(tokens.sizes(), numbers_)
                                                     : at::ones({tokens.size(0), 0}, numbers_);
  position_ = {.mask = mask, .stage = stage};
}

std::function<void()> RouterBalance::save_position() {
  return [this, position = position_]() mutable {
    position_ = std::move(position);
    position_.again = true;
  };
}

Tensor RouterBalance::add(const Tensor& weights, const Tensor& logits, const Tensor& scores, const Tensor& chosen,
                          const Tensor& bias) {
  // With sequence parallelism, routers see each rank's positions, or all of them on every rank, of which one counts.
  const int64_t ranks = bound.sequence ? bound.tp->size() : 1, rank = bound.sequence ? bound.tp->rank() : 0;
  const bool are_shares = ranks > 1 && chosen.size(0) * ranks == position_.mask.numel();
  const bool counts_here = are_shares || rank == 0;
  const int64_t batch = position_.mask.size(0), seq = position_.mask.size(1) / (are_shares ? ranks : 1);
  const int64_t k = chosen.size(1);
  if (chosen.size(0) != batch * seq || scores.size(1) != experts_) {
    TORCH_CHECK(!options_.does_anything(), "a router chooses for ", chosen.size(0), " rows among ", scores.size(1),
                " experts, but balancing supports only batches of texts, here ", batch * seq, " tokens, and ", experts_,
                " experts: leave out the options of [router]");
    return weights;
  }
  const Tensor own_mask = are_shares ? position_.mask.narrow(1, rank * seq, seq) : position_.mask;
  Tensor choices;  // [batch, experts]
  {
    const at::NoGradGuard no_grad;
    const Tensor mask_per_choice = own_mask.unsqueeze(-1).expand({batch, seq, k}).reshape({batch, seq * k});
    choices = at::zeros({batch, experts_}, numbers_).scatter_add_(1, chosen.reshape({batch, seq * k}), mask_per_choice);
    if (counts_ && !position_.again) count(choices, own_mask.sum(), bias, counts_here);
  }
  if (only_counts_) return weights;

  Tensor result = weights;
  const auto add_gradient = [&](const Tensor& value, const Tensor& gradient) {
    if (at::GradMode::is_enabled()) result = WithGradient::apply(result, value, gradient);
  };
  const auto add_loss = [&](const Tensor& loss, double coefficient) {
    if (!position_.again && counts_here) loss_.add_(loss.detach(), coefficient);
    add_gradient(loss, at::full({}, coefficient, numbers_));
  };
  const Tensor mask = own_mask.to(scores.scalar_type()).reshape({batch * seq, 1});
  if (options_.aux_loss > 0.0) {
    const Tensor normalized = scores / scores.sum(-1, /*keepdim=*/true) * mask;
    const Tensor score_sums = normalized.view({batch, seq, experts_}).sum(1);  // [batch, experts]
    if (options_.by_sequence) {
      if (are_shares) all_reduce(tp_, choices, "the experts' loads by sequence").wait();
      choices = cp::sum(choices);
      const Tensor lengths = cp::sum(position_.mask.sum(1, /*keepdim=*/true)).clamp_min(1.0);
      const Tensor coefficients = choices * (static_cast<double>(experts_) / static_cast<double>(k)) / lengths.square();
      add_loss((coefficients.to(score_sums.scalar_type()) * score_sums).sum() / sequences_, options_.aux_loss);
    } else {
      const Tensor sum = score_sums.sum(0);
      if (!position_.again && counts_here) score_sums_.add_(sum.detach());
      add_gradient(sum, score_gradient_);
    }
  }
  if (options_.z_loss > 0.0)
    add_loss((logits.logsumexp(-1, /*keepdim=*/true).square() * mask).sum() / positions_, options_.z_loss);
  return result;
}

void RouterBalance::count(const Tensor& choices, const Tensor& rows, const Tensor& bias, bool counts_here) {
  Router& router = routers_[{position_.stage, position_.router++}];
  if (!router.counts.defined()) router = {at::zeros({experts_}, numbers_), bias};
  if (!counts_here) return;
  router.counts.add_(choices.sum(0));
  rows_.add_(rows);
}

void RouterBalance::sum_counts() {
  if (!needs_counts() || !counts_) return;
  counts_ = false;
  Tensor sums = at::zeros({experts_ + 1}, numbers_);
  for (const auto& [key, router] : routers_) sums.narrow(0, 0, experts_).add_(router.counts);
  sums[experts_] = rows_;
  if (bound.sequence) all_reduce(tp_, sums, "the experts' loads").wait();
  all_reduce(routers_of_step_, sums, "the experts' loads").wait();
  const Tensor rows = sums[experts_].clamp_min(1.0);
  score_gradient_.copy_(sums.narrow(0, 0, experts_) * (options_.aux_loss * static_cast<double>(experts_)) /
                        rows.square());
}

Tensor RouterBalance::statistics() {
  sum_counts();
  if (needs_counts()) loss_.add_((score_gradient_ * score_sums_).sum());
  std::vector<Tensor> numbers = {loss_.view({1})};
  for (const auto& [key, router] : routers_) numbers.push_back(router.counts);
  const Tensor own = at::cat(numbers);
  if (bound.sequence) all_reduce(tp_, own, "the loss and the loads of routers").wait();
  return own;
}

std::vector<double> RouterBalance::take_statistics(std::span<const double> sums) {
  const at::Tensor all = at::tensor(at::ArrayRef<double>(sums.data(), sums.size()), at::kDouble);
  const Tensor counts = all.narrow(0, 1, all.numel() - 1).view({-1, experts_});  // [routers, experts]
  const double load = (counts.amax(-1) / counts.mean(-1).clamp_min(1e-9)).sum().item<double>();
  if (options_.bias_speed > 0.0) {
    const Tensor own = counts.to(numbers_.device());
    int64_t number = 0;
    for (auto& [key, router] : routers_) router.counts = own[number++];
  }
  return {sums[0], load, static_cast<double>(counts.size(0))};
}

void RouterBalance::report(std::span<const double> sums, StepResult& result) const {
  const double loss = sums[0], load = sums[1], routers = sums[2];
  if (routers == 0.0 && options_.does_anything() && values_are_known)
    throw std::runtime_error(
        "the options of [router] have no effect on this model, because none of its routers calls balance_experts(): "
        "leave them out");
  result.router_loss = loss;
  result.expert_load = routers > 0.0 ? load / routers : 0.0;
}

void RouterBalance::after_update() {
  if (options_.bias_speed <= 0.0) return;
  const at::NoGradGuard no_grad;
  for (auto& [key, router] : routers_) {
    if (!router.bias.defined()) continue;
    const Tensor direction = (router.counts.mean() - router.counts).sign();
    router.bias.add_(direction.to(router.bias.scalar_type()), options_.bias_speed);
  }
}

}  // namespace modular
