#include "runtime/parallel/stage_graph.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

namespace modular {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::Node;
using torch::autograd::variable_list;

/// For each node that can be reached from `from`, whether edges lead from it to `target`.
std::unordered_map<Node*, bool> nodes_to(const Node* target, Node* from) {
  std::unordered_map<Node*, bool> leads;
  std::vector<std::pair<Node*, uint32_t>> path;  // with the number of the next edge to follow
  const auto visit = [&](Node* node) {
    if (leads.try_emplace(node, node == target).second) path.emplace_back(node, 0);
  };
  visit(from);
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
  return leads;
}

}  // namespace

StageGraph::StageGraph(const at::Tensor& output, const at::Tensor& input)
    : sizes_(output.sizes().vec()), options_(output.options()), input_(input) {
  if (output.requires_grad()) output_ = torch::autograd::impl::gradient_edge(output);
}

at::Tensor StageGraph::backward(const at::Tensor& gradient) {
  if (output_.is_valid()) roots_.push_back(std::exchange(output_, {})), root_gradients_.push_back(gradient);
  backward_weight();
  return input_.defined() ? input_.grad() : at::Tensor();
}

at::Tensor StageGraph::backward_input(const at::Tensor& gradient) {
  const Edge output = std::exchange(output_, {});
  if (!output.is_valid()) return {};
  std::unordered_map<Node*, bool> leads;
  if (input_.defined()) leads = nodes_to(torch::autograd::impl::grad_accumulator(input_).get(), output.function.get());
  if (!input_.defined() || !leads.at(output.function.get())) {
    roots_ = {output};
    root_gradients_ = {gradient};
    return {};
  }

  // Where a parameter's way meets the input's, and the gradients that arrive there.
  std::vector<std::shared_ptr<Node>> meeting, passed;
  edge_list arrivals = {torch::autograd::impl::gradient_edge(input_)};
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
  variable_list arrived =
      Engine::get_default_engine().execute({output}, {gradient}, /*keep_graph=*/true,
                                           /*create_graph=*/false, /*accumulate_grad=*/false, arrivals);
  for (size_t i = 1; i < arrivals.size(); ++i) {
    if (!arrived[i].defined()) continue;
    roots_.push_back(arrivals[i]);
    root_gradients_.push_back(std::move(arrived[i]));
  }
  for (const std::shared_ptr<Node>& node : meeting)
    for (Edge& next : node->next_edges())
      if (next.is_valid() && leads.at(next.function.get())) next = Edge();
  // The cuts alone do not free these: a value that a node has saved holds the node that made it.
  for (const std::shared_ptr<Node>& node : passed) node->release_variables();
  input_.reset();
  return arrived[0];
}

void StageGraph::backward_weight() {
  if (roots_.empty()) return;
  Engine::get_default_engine().execute(std::exchange(roots_, {}), std::exchange(root_gradients_, {}),
                                       /*keep_graph=*/false, /*create_graph=*/false, /*accumulate_grad=*/true);
}

}  // namespace modular
