// A split backward of a stage computes the same as a full one, each operation once, and keeps only what it needs.
#include "runtime/parallel/pipeline/stage_graph.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <utility>

namespace modular {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

int backwards_of_watched = 0;

/// Identity that counts its backwards.
struct Watched : torch::autograd::Function<Watched> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x.view_as(x); }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    ++backwards_of_watched;
    return gradients;
  }
};

struct Weights {
  Tensor matrix = at::randn({4, 4}).requires_grad_();
  Tensor shared = at::randn({4, 4}).requires_grad_();  // used twice, once in an input of itself
  Tensor bias = at::randn({4}).requires_grad_();
  Tensor frozen = at::randn({4, 4});
  Tensor independent = at::randn({3, 4}).requires_grad_();  // reaches the output without the input

  Tensor forward(const Tensor& x) const {
    const Tensor first = at::addmm(bias, Watched::apply(x), matrix.t()).tanh();
    const Tensor second = Watched::apply(at::matmul(at::matmul(first, shared).sigmoid(), frozen)) + x;
    return at::matmul(second, shared.square()) * at::cos(bias) + independent.exp();
  }
  std::vector<Tensor> all() const { return {matrix, shared, bias, independent}; }
  std::vector<Tensor> take_gradients() const {
    std::vector<Tensor> gradients;
    for (Tensor weight : all()) {
      gradients.push_back(weight.grad().clone());
      weight.mutable_grad().reset();
    }
    return gradients;
  }
};

TEST(StageGraph, SplitBackwardMatchesTheFullBackward) {
  at::manual_seed(1);
  const Weights weights;
  const Tensor values = at::randn({3, 4}), gradient = at::randn({3, 4});

  const Tensor input = values.clone().requires_grad_();
  const Tensor expected = StageGraph({weights.forward(input)}, {input}).backward({gradient})[0];
  const auto expected_of_weights = weights.take_gradients();

  const Tensor again = values.clone().requires_grad_();
  StageGraph graph({weights.forward(again)}, {again});
  backwards_of_watched = 0;
  EXPECT_TRUE(graph.backward_input({gradient})[0].equal(expected));
  EXPECT_EQ(backwards_of_watched, 2);
  for (const Tensor& weight : weights.all()) EXPECT_FALSE(weight.grad().defined());
  graph.backward_weight();
  EXPECT_EQ(backwards_of_watched, 2) << "nodes that lead only to the input run in the first half";
  const auto of_weights = weights.take_gradients();
  for (size_t i = 0; i < of_weights.size(); ++i)
    EXPECT_TRUE(of_weights[i].allclose(expected_of_weights[i], 1e-6, 1e-6)) << i;
}

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

/// Identity that saves a tensor for its backward.
struct Keeping : torch::autograd::Function<Keeping> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& kept) {
    context->save_for_backward({kept});
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {gradients[0] * context->get_saved_variables()[0], Tensor()};
  }
};

TEST(StageGraph, FirstHalfFreesWhatTheSecondDoesNotNeed) {
  const Weights weights;
  const Tensor input = at::randn({3, 4}).requires_grad_();
  Tensor kept = at::ones({1});
  const WeakTensor alive(kept.getIntrusivePtr());
  std::unique_ptr<StageGraph> graph;
  {
    const Tensor first = Keeping::apply(at::matmul(input, weights.matrix), std::exchange(kept, {}));
    graph = std::make_unique<StageGraph>(StageGraph::Tensors{at::matmul(first, weights.shared)},
                                         StageGraph::Tensors{input});
  }
  EXPECT_FALSE(alive.expired());
  graph->backward_input({graph->empty_gradients()[0].fill_(1.0)});
  EXPECT_TRUE(alive.expired());
  graph->backward_weight();
  EXPECT_TRUE(weights.matrix.grad().defined());
}

TEST(StageGraph, WithoutInputsTheSecondHalfComputesEverything) {
  const Weights weights;
  StageGraph graph({at::matmul(weights.matrix, weights.shared)}, {});
  EXPECT_TRUE(graph.backward_input({at::ones({4, 4})}).empty());
  EXPECT_FALSE(weights.matrix.grad().defined());
  graph.backward_weight();
  EXPECT_TRUE(weights.matrix.grad().allclose(at::matmul(at::ones({4, 4}), weights.shared.detach().t())));
}

TEST(StageGraph, FrozenStagesHaveNoGradient) {
  StageGraph first({at::ones({2})}, {});
  EXPECT_TRUE(first.backward_input({at::ones({2})}).empty());
  first.backward_weight();
  const Tensor input = at::ones({2}).requires_grad_();
  StageGraph passing({input * 3.0}, {input});
  EXPECT_TRUE(passing.backward_input({at::ones({2})})[0].equal(at::full({2}, 3.0)));
  passing.backward_weight();
  StageGraph apart({at::ones({2})}, {input});
  EXPECT_FALSE(apart.backward({at::ones({2})})[0].defined());
}

/// Two values cross the cut: one that is multiplied by a matrix, and one that is used and also passed through.
TEST(StageGraph, AddsGradientsOfValuesThatAreUsedAndPassedThrough) {
  at::manual_seed(2);
  const Weights weights;
  const Tensor gradient = at::randn({3, 4}), gradient_of_along = at::randn({3, 4});
  for (const bool in_halves : {false, true}) {
    const Tensor first = at::randn({3, 4}).requires_grad_(), along = at::randn({3, 4}).requires_grad_();
    const Tensor output = at::matmul(first, weights.matrix) * along.exp();
    const auto expected =
        torch::autograd::grad({output, along}, {first, along, weights.matrix}, {gradient, gradient_of_along},
                              /*retain_graph=*/true);
    StageGraph graph({output, along}, {first, along});
    const auto found =
        in_halves ? graph.backward_input({gradient, gradient_of_along}) : graph.backward({gradient, gradient_of_along});
    if (in_halves) {
      EXPECT_FALSE(weights.matrix.grad().defined());
      graph.backward_weight();
    }
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(found[i].allclose(expected[i], 1e-6, 1e-6)) << i << in_halves;
    EXPECT_TRUE(weights.matrix.grad().allclose(expected[2], 1e-6, 1e-6)) << in_halves;
    Tensor matrix = weights.matrix;
    matrix.mutable_grad().reset();
  }
}

TEST(StageGraph, OutputsWithoutInputsWaitForTheSecondHalf) {
  const Weights weights;
  const Tensor along = at::randn({3, 4}).requires_grad_();
  StageGraph graph({weights.independent.exp(), along}, {along});
  const Tensor gradient = at::ones({3, 4});
  EXPECT_TRUE(graph.backward_input({gradient, gradient * 2.0})[0].equal(gradient * 2.0));
  EXPECT_FALSE(weights.independent.grad().defined());
  graph.backward_weight();
  EXPECT_TRUE(weights.independent.grad().allclose(weights.independent.detach().exp()));
}

}  // namespace
}  // namespace modular
