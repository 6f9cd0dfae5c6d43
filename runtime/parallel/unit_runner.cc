#include "runtime/parallel/unit_runner.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/parallel/random_state.h"

namespace modular {
namespace {

/// Inputs as leaves of a graph of their own.
std::vector<at::Tensor> as_leaves(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  leaves.reserve(inputs.size());
  for (const at::Tensor& input : inputs)
    leaves.push_back(input.requires_grad() ? input.detach().requires_grad_() : input);
  return leaves;
}

}  // namespace

/// The backward of one forward of a unit.
class UnitNode final : public torch::autograd::Node {
 public:
  UnitNode(UnitRunner& runner, size_t unit, size_t position, std::vector<at::Tensor> leaves)
      : runner_(runner),
        unit_(unit),
        order_(runner.orders_.at(runner.stage_)),
        position_(position),
        parallel_(bound),
        leaves_(std::move(leaves)) {}

  std::string name() const override { return "UnitBackward of " + runner_.parameters_[unit_].name(); }

  void keep_graph(std::vector<at::Tensor> outputs) { outputs_ = std::move(outputs); }
  void keep_body(fsdp::Units::Body body, RandomState before, DropoutDraws::Position position) {
    body_ = std::move(body);
    random_state_ = std::move(before);
    dropout_ = std::move(position);
  }

  /// Makes this node the history of `output`, which is number `index` of the unit's.
  void attach(const at::Tensor& output, size_t index, const std::shared_ptr<Node>& self) {
    torch::autograd::set_history(output, self);
    attached_.push_back(index);
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    TORCH_CHECK(!std::exchange(done_, true), name(), " ran before: the graph of a unit can be used once");
    runner_.enter(unit_, order_, position_, -1);
    run_backward(body_ ? recompute() : std::exchange(outputs_, {}), std::move(gradients));
    --runner_.awaited_[unit_];
    if (runner_.options_.reshard_after_forward) runner_.parameters_[unit_].release();
    runner_.reduce(unit_);

    torch::autograd::variable_list input_gradients;
    for (at::Tensor& leaf : std::exchange(leaves_, {}))
      input_gradients.push_back(leaf.requires_grad() ? leaf.grad() : at::Tensor());
    return input_gradients;
  }

 private:
  std::vector<at::Tensor> recompute() {
    const at::AutoGradMode with_graph(true);
    const Binding binding(parallel_);  // this may be autograd's thread for a GPU
    const RandomState now(runner_.device_);
    random_state_->restore();
    DropoutDraws* dropout = runner_.options_.dropout;
    if (dropout) dropout->set_position(std::move(dropout_));
    auto outputs = std::exchange(body_, nullptr)(leaves_);
    now.restore();
    return outputs;
  }

  /// Leaves gradients in the unit's parameters and in `leaves_`.
  void run_backward(std::vector<at::Tensor> outputs, torch::autograd::variable_list gradients) {
    torch::autograd::variable_list roots, root_gradients;
    for (size_t i = 0; i < attached_.size(); ++i) {
      at::Tensor& output = outputs[attached_[i]];
      if (!gradients[i].defined() || !output.requires_grad()) continue;
      roots.push_back(std::move(output));
      root_gradients.push_back(std::move(gradients[i]));
    }
    outputs.clear();
    gradients.clear();
    if (!roots.empty()) torch::autograd::backward(roots, root_gradients);
  }

  UnitRunner& runner_;
  size_t unit_;
  const UnitRunner::Order& order_;  // of the stage that it belongs to
  size_t position_;
  const Parallel parallel_;  // that the forward was bound to
  bool done_ = false;
  std::vector<size_t> attached_;  // the outputs that have this history, by their number among all
  std::vector<at::Tensor> leaves_;
  std::vector<at::Tensor> outputs_;
  fsdp::Units::Body body_;
  std::optional<RandomState> random_state_;
  DropoutDraws::Position dropout_;
};

UnitRunner::UnitRunner(const std::vector<ModelUnit>& units, std::span<UnitParameters> parameters,
                       const UnitOptions& options, const at::Device& device)
    : parameters_(parameters),
      options_(options),
      device_(device),
      stage_of_(units.size(), kUnknown),
      awaited_(units.size(), 0) {
  for (size_t unit = 0; unit < units.size(); ++unit) {
    index_.emplace(units[unit].module, unit);
    if (unit > 0 && parameters_[unit].layout().shard_size > 0) order_in_tree_.push_back(unit);
  }
  enter_stage(0);
}

std::vector<at::Tensor> UnitRunner::run(nn::Module& module, const std::vector<at::Tensor>& inputs, const Body& body) {
  const auto found = index_.find(&module);
  TORCH_INTERNAL_ASSERT(found != index_.end(), "a unit runs that is not in the plan: ", module.name());
  const size_t unit = found->second;
  RECORD_USER_SCOPE(parameters_[unit].name());
  if (unit == 0) return run_root(inputs, body);

  if (stage_of_[unit] != stage_) stage_of_[unit] = stage_of_[unit] == kUnknown ? stage_ : kSeveral;
  const size_t position = next_position(unit);
  const Order& order = orders_.at(stage_);
  enter(unit, order, position, 1);
  const bool with_graph = at::GradMode::is_enabled();
  auto outputs = with_graph ? run_with_graph(unit, position, inputs, body) : body(inputs);
  // The backward begins with the unit that ran last.
  const bool is_last = order.is_known && position + 1 == order.units.size();
  if (options_.reshard_after_forward && !(with_graph && is_last)) parameters_[unit].release();
  return outputs;
}

std::vector<at::Tensor> UnitRunner::run_root(const std::vector<at::Tensor>& inputs, const Body& body) {
  Order& order = orders_.at(stage_);
  order.position = 0;
  parameters_[0].prefetch();
  for (size_t next = 0; next < std::min(options_.prefetch, order.units.size()); ++next)
    parameters_[order.units[next]].prefetch();
  parameters_[0].gather();
  auto outputs = body(inputs);
  order.units.resize(order.position);
  order.is_known = true;
  return outputs;
}

std::vector<at::Tensor> UnitRunner::run_with_graph(size_t unit, size_t position, const std::vector<at::Tensor>& inputs,
                                                   const Body& body) {
  const auto leaves = as_leaves(inputs);
  const std::shared_ptr<UnitNode> node(new UnitNode(*this, unit, position, leaves), torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(at::TensorList(inputs)));

  std::vector<at::Tensor> outputs;
  if (options_.recompute) {
    RandomState before(device_);
    DropoutDraws::Position dropout;
    if (options_.dropout) dropout = options_.dropout->position();
    {
      const at::NoGradGuard no_graph;
      outputs = body(leaves);
    }
    node->keep_body(body, std::move(before), std::move(dropout));
  } else {
    outputs = body(leaves);
    node->keep_graph(outputs);
  }
  ++awaited_[unit];
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool differentiable = torch::autograd::isDifferentiableType(outputs[i].scalar_type());
    if (!differentiable || !(options_.recompute || outputs[i].requires_grad())) continue;
    outputs[i] = outputs[i].detach();
    node->attach(outputs[i], i, node);
  }
  return outputs;
}

size_t UnitRunner::next_position(size_t unit) {
  Order& order = orders_.at(stage_);
  if (order.position >= order.units.size() || order.units[order.position] != unit) {
    order.is_known = false;
    order.units.resize(order.position);
    order.units.push_back(unit);
  }
  return order.position++;
}

void UnitRunner::enter(size_t unit, const Order& order, size_t position, int direction) {
  parameters_[unit].gather();
  for (size_t ahead = 1; ahead <= options_.prefetch; ++ahead) {
    const size_t next = direction > 0 ? position + ahead : position - ahead;  // wraps below 0, beyond the end
    if (next < order.units.size()) parameters_[order.units[next]].prefetch();
  }
}

bool UnitRunner::is_last_backward(size_t unit) const {
  // A backward comes after all stages' forwards of its micro-batch, so it is known by now which stages run the unit.
  const bool of_one_stage = unit > 0 && stage_of_[unit] != kSeveral;
  return (of_one_stage ? last_of_stage_ : last_of_step_) && awaited_[unit] == 0;
}

void UnitRunner::reduce(size_t unit) {
  if (!options_.reduce) return;
  if (options_.reduce_once && !is_last_backward(unit)) return parameters_[unit].keep_gradients();
  finish_reducing();
  parameters_[unit].start_reduction();
  reducing_ = unit;
  if (!parameters_[unit].is_reducing()) finish_reducing();
}

void UnitRunner::finish_reducing() {
  if (!reducing_) return;
  parameters_[*reducing_].finish_reduction(is_last_backward(*reducing_));
  reducing_.reset();
}

void UnitRunner::begin_step() {
  last_of_stage_ = last_of_step_ = false;
  std::ranges::fill(awaited_, 0);
}

void UnitRunner::enter_stage(int64_t stage) {
  stage_ = stage;
  orders_.try_emplace(stage, Order{order_in_tree_});
}

void UnitRunner::begin_backward(bool last_of_stage, bool last_of_step) {
  last_of_stage_ = last_of_stage;
  last_of_step_ = last_of_step;
}

void UnitRunner::end_backward(bool with_root) {
  if (last_of_step_) parameters_[0].release();  // before the reduction needs as much
  if (with_root || last_of_step_) reduce(0);
  finish_reducing();
}

void UnitRunner::end_step() {
  finish_reducing();
  release_all();
  if (!options_.reduce) return;
  for (UnitParameters& unit : parameters_)
    if (unit.has_kept_gradients()) unit.start_reduction();  // the last backward did not reach it
  for (UnitParameters& unit : parameters_) unit.finish_step();
}

void UnitRunner::release_all() {
  for (UnitParameters& unit : parameters_) unit.release();
}

}  // namespace modular
