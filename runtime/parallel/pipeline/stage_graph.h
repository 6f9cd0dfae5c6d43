// The backward of one forward of a pipeline stage, full or split in two (Qi et al., Zero Bubble Pipeline Parallelism).
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace modular {

/// The autograd graph from a stage's inputs to its outputs. It does not hold the outputs themselves, only the tensors
/// that the graph saves, so that outputs are freed once they are sent. Call backward() once, or backward_input() and
/// then backward_weight().
class StageGraph {
 public:
  using Tensors = std::vector<at::Tensor>;

  /// `inputs` are leaves that require a gradient; empty on the first stage. An output may require no gradient, if
  /// everything before it is frozen, and may be an input that is passed through.
  StageGraph(const Tensors& outputs, Tensors inputs);

  const Tensors& inputs() const { return inputs_; }
  /// Allocates tensors for the outputs' gradients.
  Tensors empty_gradients() const;

  /// Accumulates the gradients of all parameters. Returns the inputs' gradients, undefined if there is none.
  Tensors backward(Tensors gradients);

  /// Returns the inputs' gradients, and keeps only the part of the graph that the parameter gradients need. Paths from
  /// parameters and from inputs meet in nodes such as a matmul. The gradients that arrive at these nodes are kept, and
  /// the nodes' edges toward the inputs are cut, so that the rest of the graph is freed and nothing is computed twice.
  /// (PyTorch's stage_backward_input keeps the full graph.) A node that computes all its gradients together, such as a
  /// fused norm, runs in both halves.
  Tensors backward_input(Tensors gradients);

  /// Accumulates the gradients of all parameters.
  void backward_weight();

 private:
  struct Output {
    std::vector<int64_t> sizes;
    at::TensorOptions options;
    torch::autograd::Edge edge;      // invalid where the output requires no gradient
    std::optional<size_t> is_input;  // index of the input, if the output is an input
  };
  /// Gradients of inputs that are outputs themselves.
  Tensors passed_on(const Tensors& gradients) const;

  std::vector<Output> outputs_;
  Tensors inputs_;
  // Roots of backward_weight(), and their gradients.
  torch::autograd::edge_list roots_;
  torch::autograd::variable_list root_gradients_;
};

}  // namespace modular
