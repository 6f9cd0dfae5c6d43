// The backward of one forward of a pipeline stage, whole or in two halves (Qi et al., Zero Bubble Pipeline
// Parallelism).
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <vector>

namespace modular {

/// The autograd graph between what a stage received and what it passes on. Of the output it holds what the graph saves
/// of it, so that the rest is free once it was sent. Call backward() once, or backward_input() and then
/// backward_weight().
class StageGraph {
 public:
  /// `input` is a leaf that requires a gradient, or undefined on the first stage. `output` may require none, where all
  /// that leads to it is frozen.
  StageGraph(const at::Tensor& output, const at::Tensor& input);

  const at::Tensor& input() const { return input_; }
  /// A tensor for the output's gradient.
  at::Tensor empty_gradient() const { return at::empty(sizes_, options_); }

  /// Adds to the gradients of all parameters. Returns the input's, undefined where there is none.
  at::Tensor backward(const at::Tensor& gradient);

  /// Returns the input's gradient, and keeps of the graph what the parameters' need. What leads from a parameter meets
  /// what leads from the input in nodes like a matrix product's; the gradients that arrive there are kept, and the
  /// nodes' ways to the input are cut, so that the rest of the graph is freed and nothing is computed twice. (PyTorch's
  /// stage_backward_input keeps the graph whole.) A node that computes all its gradients at once, as the fused norms
  /// do, runs in both halves.
  at::Tensor backward_input(const at::Tensor& gradient);

  /// Adds to the gradients of all parameters.
  void backward_weight();

 private:
  std::vector<int64_t> sizes_;
  at::TensorOptions options_;
  torch::autograd::Edge output_;  // invalid where the output requires no gradient
  at::Tensor input_;
  // From where backward_weight() starts, and with what.
  torch::autograd::edge_list roots_;
  torch::autograd::variable_list root_gradients_;
};

}  // namespace modular
