#include "runtime/parallel/pipeline/stage_graph.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace modular {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::Node;
using torch::autograd::variable_list;

/// Returns, for each node reachable from `from`, whether it leads to one of `targets`.
std::unordered_map<Node*, bool> find_paths_to(const std::unordered_set<const Node*>& targets, const edge_list& from) {
  std::unordered_map<Node*, bool> leads;
  std::vector<std::pair<Node*, uint32_t>> path;  // with the index of the next edge to follow
  const auto visit = [&](Node* node) {
    if (leads.try_emplace(node, targets.contains(node)).second) path.emplace_back(node, 0);
  };
  for (const Edge& root : from) {
    visit(root.function.get());
    while (!path.empty()) {
      auto& [node, edge] = path.back();
      if (edge < node->num_outputs()) {
        if (Node* const next = node->next_edge(edge++).function.get()) visit(next);
        continue;
      }
      for (const Edge& next : node->next_edges())
        if (next.is_valid() && leads.at(next.function.get())) leads.at(node) = true;
      path.pop_back();
    }
  }
  return leads;
}

/// Returns a + b; either may be undefined.
at::Tensor sum(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() ? a + b : a.defined() ? a : b;
}

}  // namespace

StageGraph::StageGraph(const Tensors& outputs, Tensors inputs) : inputs_(std::move(inputs)) {
  for (const at::Tensor& tensor : outputs) {
    Output& output = outputs_.emplace_back(Output{tensor.sizes().vec(), tensor.options(), {}, {}});
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (tensor.is_same(inputs_[i])) output.is_input = i;
    if (tensor.requires_grad() && !output.is_input) output.edge = torch::autograd::impl::gradient_edge(tensor);
  }
}

StageGraph::Tensors StageGraph::empty_gradients() const {
  Tensors gradients;
  for (const Output& output : outputs_) gradients.push_back(at::empty(output.sizes, output.options));
  return gradients;
}

StageGraph::Tensors StageGraph::passed_on(const Tensors& gradients) const {
  Tensors passed(inputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (const std::optional<size_t> input = outputs_[i].is_input) passed[*input] = sum(passed[*input], gradients[i]);
  return passed;
}

StageGraph::Tensors StageGraph::backward(Tensors gradients) {
  Tensors input_gradients = passed_on(gradients);
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].edge.is_valid())
      roots_.push_back(std::exchange(outputs_[i].edge, {})), root_gradients_.push_back(std::exchange(gradients[i], {}));
  backward_weight();
  for (size_t i = 0; i < inputs_.size(); ++i) input_gradients[i] = sum(inputs_[i].grad(), input_gradients[i]);
  return input_gradients;
}

StageGraph::Tensors StageGraph::backward_input(Tensors gradients) {
  Tensors input_gradients = passed_on(gradients);
  edge_list edges, arrivals;
  for (const Output& output : outputs_)
    if (output.edge.is_valid()) edges.push_back(output.edge);
  std::unordered_set<const Node*> targets;
  for (const at::Tensor& input : inputs_) {
    arrivals.push_back(torch::autograd::impl::gradient_edge(input));
    targets.insert(arrivals.back().function.get());
  }
  const std::unordered_map<Node*, bool> leads = find_paths_to(targets, edges);
  edge_list starts;  // roots that lead to an input; the others wait for the second half
  variable_list start_gradients;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Edge edge = std::exchange(outputs_[i].edge, {});
    if (!edge.is_valid()) continue;
    const bool leads_to_input = leads.at(edge.function.get());
    (leads_to_input ? starts : roots_).push_back(std::move(edge));
    (leads_to_input ? start_gradients : root_gradients_).push_back(std::exchange(gradients[i], {}));
  }
  if (starts.empty()) return input_gradients;

  // Nodes where a parameter's path meets an input's, and the gradients that arrive there.
  std::vector<std::shared_ptr<Node>> meeting, passed;
  for (const auto& [node, leads_to_input] : leads) {
    if (!leads_to_input) continue;
    const auto is_parameters = [&](const Edge& next) { return next.is_valid() && !leads.at(next.function.get()); };
    if (std::ranges::none_of(node->next_edges(), is_parameters)) {
      passed.push_back(node->getptr());
      continue;
    }
    meeting.push_back(node->getptr());
    for (uint32_t number = 0; number < node->num_inputs(); ++number) arrivals.emplace_back(meeting.back(), number);
  }
  variable_list arrived = Engine::get_default_engine().execute(
      std::exchange(starts, {}), std::exchange(start_gradients, {}), /*keep_graph=*/true,
      /*create_graph=*/false, /*accumulate_grad=*/false, arrivals);
  for (size_t i = inputs_.size(); i < arrivals.size(); ++i) {
    if (!arrived[i].defined()) continue;
    roots_.push_back(arrivals[i]);
    root_gradients_.push_back(std::move(arrived[i]));
  }
  for (const std::shared_ptr<Node>& node : meeting)
    for (Edge& next : node->next_edges())
      if (next.is_valid() && leads.at(next.function.get())) next = Edge();
  // Cutting the edges does not free these: a value that a node has saved holds the node that computed it.
  for (const std::shared_ptr<Node>& node : passed) node->release_variables();
  for (size_t i = 0; i < inputs_.size(); ++i) input_gradients[i] = sum(arrived[i], input_gradients[i]);
  inputs_.clear();
  return input_gradients;
}

void StageGraph::backward_weight() {
  if (roots_.empty()) return;
  Engine::get_default_engine().execute(std::exchange(roots_, {}), std::exchange(root_gradients_, {}),
                                       /*keep_graph=*/false, /*create_graph=*/false, /*accumulate_grad=*/true);
}

}  // namespace modular
