#include "runtime/parallel/fsdp/unit_runner.h"

#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace modular {
namespace {

/// RNG state of the default generators for `device`, so that a recomputed forward samples the same values.
class RandomState {
 public:
  explicit RandomState(const at::Device& device) {
    save(at::Device(at::kCPU));
    if (!device.is_cpu()) save(device);
  }
  /// Restores the generators to this state.
  void restore() const {
    for (const auto& [device, state] : states_) {
      at::Generator generator = at::globalContext().defaultGenerator(device);
      std::lock_guard lock(generator.mutex());
      generator.set_state(state);
    }
  }

 private:
  void save(const at::Device& device) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    std::lock_guard lock(generator.mutex());
    states_.emplace_back(device, generator.get_state());
  }
  std::vector<std::pair<at::Device, at::Tensor>> states_;
};

/// Leaf of a unit's graph: receives the gradient of one input without holding the input.
class InputNode final : public torch::autograd::Node {
 public:
  std::string name() const override { return "UnitInput"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    gradient = std::move(gradients[0]);
    return {};
  }
  at::Tensor gradient;
};
using InputNodes = std::vector<std::shared_ptr<InputNode>>;  // parallel to inputs; null for inputs without a gradient

/// Returns the inputs as leaves of a separate graph.
std::vector<at::Tensor> detach_inputs(const std::vector<at::Tensor>& inputs, const std::vector<bool>& differentiable,
                                      InputNodes& nodes) {
  std::vector<at::Tensor> detached;
  for (size_t i = 0; i < inputs.size(); ++i) {
    detached.push_back(differentiable[i] ? inputs[i].detach() : inputs[i]);
    nodes.push_back(nullptr);
    if (!differentiable[i]) continue;
    nodes.back() = std::shared_ptr<InputNode>(new InputNode, torch::autograd::deleteNode);
    torch::autograd::set_history(detached.back(), nodes.back());
  }
  return detached;
}

}  // namespace

/// The backward of one forward of a unit.
class UnitNode final : public torch::autograd::Node {
 public:
  UnitNode(UnitRunner& runner, size_t unit, size_t position)
      : runner_(runner), unit_(unit), order_(runner.orders_.at(runner.stage_)), position_(position), parallel_(bound) {}

  std::string name() const override { return "UnitBackward of " + runner_.parameters_[unit_].name(); }

  /// Keeps the graph of the forward; of the outputs it keeps only the history.
  void keep_graph(const std::vector<at::Tensor>& outputs, InputNodes inputs,
                  std::shared_ptr<const OffloadedUnit> offloaded) {
    outputs_ = to_edges(outputs);
    input_nodes_ = std::move(inputs);
    offloaded_ = std::move(offloaded);
  }
  void keep_body(fsdp::Units::Body body, const std::vector<at::Tensor>& inputs, RandomState before,
                 std::vector<std::function<void()>> restore_features) {
    body_ = std::move(body);
    for (const at::Tensor& input : inputs) {
      differentiable_.push_back(input.requires_grad());
      inputs_.push_back(input.detach());
    }
    random_state_ = std::move(before);
    restore_features_ = std::move(restore_features);
  }

  /// Makes this node the history of `output`, the unit's output number `index`.
  void attach(const at::Tensor& output, size_t index, const std::shared_ptr<Node>& self) {
    torch::autograd::set_history(output, self);
    attached_.push_back(index);
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    TORCH_CHECK(!std::exchange(done_, true), name(), " already ran: the graph of a unit can be used only once");
    if (offloaded_) offloaded_->fetch();
    runner_.enter(unit_, order_, position_, -1);
    if (body_) recompute();
    run_backward(std::move(gradients));
    --runner_.pending_backwards_[unit_];
    if (runner_.options_.reshard_after_forward) runner_.parameters_[unit_].reshard();
    runner_.reduce(unit_);

    torch::autograd::variable_list input_gradients;
    for (const auto& input : std::exchange(input_nodes_, {}))
      input_gradients.push_back(input ? std::move(input->gradient) : at::Tensor());
    return input_gradients;
  }

 private:
  /// Returns the gradient edges of the outputs; invalid ones for outputs without history.
  static torch::autograd::edge_list to_edges(const std::vector<at::Tensor>& outputs) {
    torch::autograd::edge_list edges;
    for (const at::Tensor& output : outputs)
      edges.push_back(output.requires_grad() ? torch::autograd::impl::gradient_edge(output) : torch::autograd::Edge());
    return edges;
  }

  void recompute() {
    const at::AutoGradMode with_graph(true);
    const Binding binding(parallel_);  // this may be autograd's thread for a GPU
    const RandomState now(runner_.device_);
    random_state_->restore();
    for (const auto& restore : std::exchange(restore_features_, {})) restore();
    const auto inputs = detach_inputs(std::exchange(inputs_, {}), differentiable_, input_nodes_);
    outputs_ = to_edges(std::exchange(body_, nullptr)(inputs));
    now.restore();
  }

  /// Accumulates gradients in the unit's parameters and in `input_nodes_`.
  void run_backward(torch::autograd::variable_list gradients) {
    torch::autograd::edge_list roots;
    torch::autograd::variable_list root_gradients;
    for (size_t i = 0; i < attached_.size(); ++i) {
      torch::autograd::Edge& output = outputs_[attached_[i]];
      if (!gradients[i].defined() || !output.is_valid()) continue;
      roots.push_back(std::move(output));
      root_gradients.push_back(std::move(gradients[i]));
    }
    outputs_.clear();
    gradients.clear();
    if (!roots.empty())
      torch::autograd::Engine::get_default_engine().execute(std::move(roots), std::move(root_gradients),
                                                            /*keep_graph=*/false, /*create_graph=*/false,
                                                            /*accumulate_grad=*/true);
  }

  UnitRunner& runner_;
  size_t unit_;
  const UnitRunner::Order& order_;  // order of the unit's stage
  size_t position_;
  const Parallel parallel_;  // binding of the forward
  bool done_ = false;
  std::vector<size_t> attached_;  // indices of the outputs that have this node as history
  torch::autograd::edge_list outputs_;
  InputNodes input_nodes_;
  std::shared_ptr<const OffloadedUnit> offloaded_;  // null if nothing is offloaded
  // For a recomputed unit:
  fsdp::Units::Body body_;
  std::vector<at::Tensor> inputs_;
  std::vector<bool> differentiable_;  // parallel to inputs_
  std::optional<RandomState> random_state_;
  std::vector<std::function<void()>> restore_features_;
};

UnitRunner::UnitRunner(const std::vector<ModelUnit>& units, std::span<UnitParameters> parameters,
                       const std::vector<std::unique_ptr<Feature>>& features, const UnitOptions& options,
                       const at::Device& device)
    : parameters_(parameters),
      features_(features),
      options_(options),
      device_(device),
      unit_stage_(units.size(), kUnknown),
      pending_backwards_(units.size(), 0) {
  for (size_t unit = 0; unit < units.size(); ++unit) {
    index_.emplace(units[unit].module, unit);
    recomputed_.push_back(unit > 0 && options.recompute.includes_unit(units[unit].name));
    if (unit > 0 && parameters_[unit].layout().shard_size > 0) order_in_tree_.push_back(unit);
  }
  enter_stage(0);
}

std::vector<at::Tensor> UnitRunner::run(nn::Module& module, const std::vector<at::Tensor>& inputs, const Body& body) {
  const auto found = index_.find(&module);
  if (found == index_.end()) return body(inputs);  // the class is not in parallel.units
  const size_t unit = found->second;
  RECORD_USER_SCOPE(parameters_[unit].name());
  if (unit == 0) return run_root(inputs, body);

  if (unit_stage_[unit] != stage_) unit_stage_[unit] = unit_stage_[unit] == kUnknown ? stage_ : kSeveral;
  const size_t position = next_position(unit);
  const Order& order = orders_.at(stage_);
  enter(unit, order, position, 1);
  const bool with_graph = at::GradMode::is_enabled();
  // The backward starts with the unit that ran last.
  const bool is_last = order.is_known && position + 1 == order.units.size();
  auto outputs = with_graph ? run_with_graph(unit, position, is_last, inputs, body) : body(inputs);
  if (options_.reshard_after_forward && !(with_graph && is_last)) parameters_[unit].reshard();
  return outputs;
}

std::vector<at::Tensor> UnitRunner::run_root(const std::vector<at::Tensor>& inputs, const Body& body) {
  Order& order = orders_.at(stage_);
  order.position = 0;
  parameters_[0].prefetch();
  for (size_t next = 0; next < std::min(options_.prefetch, order.units.size()); ++next)
    parameters_[order.units[next]].prefetch();
  parameters_[0].unshard();
  auto outputs = body(inputs);
  order.units.resize(order.position);
  order.is_known = true;
  return outputs;
}

std::vector<at::Tensor> UnitRunner::run_with_graph(size_t unit, size_t position, bool is_last,
                                                   const std::vector<at::Tensor>& inputs, const Body& body) {
  const std::shared_ptr<UnitNode> node(new UnitNode(*this, unit, position), torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(at::TensorList(inputs)));

  std::vector<at::Tensor> outputs;
  if (recomputed_[unit]) {
    RandomState before(device_);
    std::vector<std::function<void()>> restore_features;
    for (const auto& feature : features_)
      if (auto restore = feature->save_position()) restore_features.push_back(std::move(restore));
    {
      const at::NoGradGuard no_graph;
      outputs = body(inputs);
    }
    node->keep_body(body, inputs, std::move(before), std::move(restore_features));
  } else {
    std::vector<bool> differentiable;
    for (const at::Tensor& input : inputs) differentiable.push_back(input.requires_grad());
    InputNodes nodes;
    const auto detached = detach_inputs(inputs, differentiable, nodes);
    SavedTensors::Frame frame(options_.saved, inputs);
    outputs = body(detached);
    node->keep_graph(outputs, std::move(nodes), frame.finish(/*offload=*/!is_last));
  }
  ++pending_backwards_[unit];
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool differentiable = torch::autograd::isDifferentiableType(outputs[i].scalar_type());
    if (!differentiable || !(recomputed_[unit] || outputs[i].requires_grad())) continue;
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
  parameters_[unit].unshard();
  for (size_t ahead = 1; ahead <= options_.prefetch; ++ahead) {
    const size_t next = direction > 0 ? position + ahead : position - ahead;  // wraps around below 0, to beyond the end
    if (next < order.units.size()) parameters_[order.units[next]].prefetch();
  }
}

bool UnitRunner::is_last_backward(size_t unit) const {
  // A backward comes after all stages' forwards of its micro-batch, so the stages that run the unit are already known.
  const bool in_single_stage = unit > 0 && unit_stage_[unit] != kSeveral;
  return (in_single_stage ? backward_.last_of_stage : backward_.last_of_step) && pending_backwards_[unit] == 0;
}

void UnitRunner::reduce(size_t unit) {
  if (options_.reduce_once && !is_last_backward(unit)) return parameters_[unit].accumulate_unsharded();
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

void UnitRunner::before_forwards(const TrainingStep& /*step*/) {
  backward_ = {.last_of_stage = false, .last_of_step = false};
  std::ranges::fill(pending_backwards_, 0);
}

void UnitRunner::enter_stage(int64_t stage) {
  stage_ = stage;
  if (!orders_.contains(stage)) orders_.emplace(stage, Order{order_in_tree_});
}

void UnitRunner::before_forward(const Batch& /*micro_batch*/, int64_t stage) { enter_stage(stage); }

void UnitRunner::after_backward(const StageBackward& backward) {
  if (backward.last_of_step) parameters_[0].reshard();  // frees memory before the reduction needs as much
  if (backward.with_root || backward.last_of_step) reduce(0);
  finish_reducing();
}

void UnitRunner::end_step() {
  finish_reducing();
  end_forwards();
  for (UnitParameters& unit : parameters_)
    if (unit.has_unsharded_gradients()) unit.start_reduction();  // not reached by the last backward
  for (UnitParameters& unit : parameters_) unit.finish_step();
}

void UnitRunner::end_forwards() {
  for (UnitParameters& unit : parameters_) unit.reshard();
}

}  // namespace modular
