// The backward of one forward of a pipeline stage, whole or in two halves (Qi et al., Zero Bubble Pipeline
// Parallelism).
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace modular {

/// The autograd graph between what a stage received and what it passes on. Of the outputs it holds what the graph saves
/// of them, so that the rest is free once they were sent. Call backward() once, or backward_input() and then
/// backward_weight().
class StageGraph {
 public:
  using Tensors = std::vector<at::Tensor>;

  /// `inputs` are leaves that require a gradient; none on the first stage. An output may require no gradient, where all
  /// that leads to it is frozen, and may be an input that is passed on as it is.
  StageGraph(const Tensors& outputs, Tensors inputs);

  const Tensors& inputs() const { return inputs_; }
  /// Tensors for the outputs' gradients.
  Tensors empty_gradients() const;

  /// Adds to the gradients of all parameters. Returns the inputs', undefined where there is none.
  Tensors backward(Tensors gradients);

  /// Returns the inputs' gradients, and keeps of the graph what the parameters' need. What leads from a parameter meets
  /// what leads from an input in nodes like a matrix product's; the gradients that arrive there are kept, and the
  /// nodes' ways to the inputs are cut, so that the rest of the graph is freed and nothing is computed twice.
  /// (PyTorch's stage_backward_input keeps the graph whole.) A node that computes all its gradients at once, as the
  /// fused norms do, runs in both halves.
  Tensors backward_input(Tensors gradients);

  /// Adds to the gradients of all parameters.
  void backward_weight();

 private:
  struct Output {
    std::vector<int64_t> sizes;
    at::TensorOptions options;
    torch::autograd::Edge edge;      // invalid where the output requires no gradient
    std::optional<size_t> is_input;  // which of them, where it is one
  };
  /// The inputs' gradients so far: of the outputs that are inputs themselves.
  Tensors passed_on(const Tensors& gradients) const;

  std::vector<Output> outputs_;
  Tensors inputs_;
  // From where backward_weight() starts, and with what.
  torch::autograd::edge_list roots_;
  torch::autograd::variable_list root_gradients_;
};

}  // namespace modular
