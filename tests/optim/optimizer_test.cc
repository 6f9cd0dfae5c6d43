// AdamW's update, and its state for checkpoints. updates_test.cc compares all optimizers with torch's.
#include "runtime/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace modular {
namespace {

ShardedParameter parameter(const std::string& name, const at::Tensor& value) {
  ShardedParameter result;
  result.name = name;
  result.names = {name};
  result.global_shape = value.sizes().vec();
  result.local = value.clone();
  return result;
}

const OptimizerOptions kOptions = {.weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};

Mesh& alone() {
  static Mesh mesh({}, {}, {.device = at::kCPU});
  return mesh;
}

TEST(AdamW, UpdateFollowsThePaper) {
  std::vector<ShardedParameter> parameters = {parameter("weight", at::full({2, 3}, 2.0))};
  Optimizer optimizer(parameters, kOptions, alone());
  double x = 2.0, m = 0.0, v = 0.0;
  for (int t = 1; t <= 3; ++t) {
    const double gradient = 0.5 * t;
    parameters[0].grad = at::full({2, 3}, gradient);
    optimizer.step(0.01);
    x -= 0.01 * 0.1 * x;
    m = 0.9 * m + 0.1 * gradient;
    v = 0.99 * v + 0.01 * gradient * gradient;
    x -= 0.01 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.99, t))) + 1e-8);
  }
  EXPECT_TRUE(at::allclose(parameters[0].local, at::full({2, 3}, x), 1e-6, 1e-7))
      << parameters[0].local << " is not " << x;
  EXPECT_EQ(optimizer.steps(), 3);
}

TEST(AdamW, NormsBiasesAndRatesDoNotDecay) {
  std::vector<ShardedParameter> parameters = {parameter("norm.weight", at::ones({4})),
                                              parameter("weight", at::ones({4, 1})),
                                              parameter("rates", at::ones({4, 2}))};
  parameters[2].is_rate = true;
  Optimizer optimizer(parameters, kOptions, alone());
  for (auto& slice : parameters) slice.grad = at::zeros_like(slice.local);
  optimizer.step(0.5);
  EXPECT_TRUE(parameters[0].local.equal(at::ones({4})));
  EXPECT_TRUE(at::allclose(parameters[1].local, at::full({4, 1}, 0.95)));
  EXPECT_TRUE(parameters[2].local.equal(at::ones({4, 2})));
}

TEST(AdamW, SlicesAreUpdatedLikeTheFullParameter) {
  at::manual_seed(1);
  const auto value = at::randn({6, 5}), gradient = at::randn({6, 5});
  std::vector<ShardedParameter> full = {parameter("weight", value)};
  std::vector<ShardedParameter> halves = {parameter("weight", value.slice(0, 0, 2)),
                                          parameter("weight", value.slice(0, 2))};
  for (auto& slice : halves) slice.global_shape = {6, 5};
  full[0].grad = gradient;
  halves[0].grad = gradient.slice(0, 0, 2);
  halves[1].grad = gradient.slice(0, 2);
  Optimizer(full, kOptions, alone()).step(0.1);
  Optimizer(halves, kOptions, alone()).step(0.1);
  EXPECT_TRUE(at::cat({halves[0].local, halves[1].local}).equal(full[0].local));
}

TEST(AdamW, EmptySlicesAndMissingGradientsAreSkipped) {
  std::vector<ShardedParameter> parameters = {parameter("empty", at::empty({0, 3})),
                                              parameter("unused", at::ones({2}))};
  Optimizer optimizer(parameters, kOptions, alone());
  parameters[0].grad = at::empty({0, 3});
  optimizer.step(0.1);
  EXPECT_TRUE(parameters[1].local.equal(at::ones({2})));
}

TEST(AdamW, StateCanBeCopiedToAnotherOptimizer) {
  at::manual_seed(1);
  std::vector<ShardedParameter> original = {parameter("weight", at::randn({8, 8}))};
  Optimizer first(original, kOptions, alone());
  const auto gradients = at::randn({4, 8, 8});
  for (int t = 0; t < 2; ++t) original[0].grad = gradients[t], first.step(0.1);

  std::vector<ShardedParameter> copy = {parameter("weight", original[0].local)};
  Optimizer second(copy, kOptions, alone());
  ASSERT_EQ(second.state().size(), 2u);
  EXPECT_EQ(second.state()[0].name, "optimizer.exp_avg.weight");
  EXPECT_EQ(second.state()[1].name, "optimizer.exp_avg_sq.weight");
  for (size_t i = 0; i < 2; ++i) second.state()[i].local.copy_(first.state()[i].local);
  second.set_steps(first.steps());

  for (int t = 2; t < 4; ++t) {
    original[0].grad = copy[0].grad = gradients[t];
    first.step(0.1), second.step(0.1);
  }
  EXPECT_TRUE(original[0].local.equal(copy[0].local));
}

}  // namespace
}  // namespace modular
