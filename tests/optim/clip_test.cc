// The norm of the whole gradient, and clipping by it. Norms over several ranks are held against one process in
// tests/train.
#include "runtime/optim/clip.h"

#include <gtest/gtest.h>

#include <cmath>

namespace modular {
namespace {

ShardedParameter with_gradient(const at::Tensor& gradient, bool owner = true) {
  ShardedParameter result;
  result.global_shape = gradient.sizes().vec();
  result.local = at::zeros_like(gradient);
  result.grad = gradient;
  const std::vector<int64_t> origin(result.global_shape.size(), 0);
  if (gradient.numel() > 0)
    result.boxes = {{.offset = origin, .start = origin, .shape = result.global_shape, .owner = owner}};
  return result;
}

Mesh alone() { return Mesh(Environment{}, MeshShape{}); }

TEST(GradientNorm, CountsEveryBoxWhereItIsOwned) {
  auto mesh = alone();
  const std::vector<ShardedParameter> parameters = {
      with_gradient(at::full({3, 3}, 1.0)), with_gradient(at::full({4}, 2.0)),
      with_gradient(at::full({9}, 100.0), /*owner=*/false), with_gradient(at::empty({0}))};
  EXPECT_NEAR(gradient_norm(parameters, mesh), 5.0, 1e-12);
}

TEST(GradientNorm, CountsThePartsOfAParameterThatAreOwned) {
  auto mesh = alone();
  ShardedParameter parameter = with_gradient(at::tensor({3.0F, 100.0F, 4.0F}));
  parameter.boxes = {{.offset = {0}, .start = {0}, .shape = {1}},
                     {.offset = {1}, .start = {1}, .shape = {1}, .owner = false},
                     {.offset = {2}, .start = {2}, .shape = {1}}};
  EXPECT_NEAR(gradient_norm({parameter}, mesh), 5.0, 1e-12);
}

TEST(GradientNorm, IsExactForManyElements) {
  auto mesh = alone();
  const int64_t count = (int64_t{1} << 26) + 5;
  const double value = 0.1F;
  EXPECT_NEAR(gradient_norm({with_gradient(at::full({count}, value))}, mesh) / (value * std::sqrt(count)), 1.0, 1e-6);
}

TEST(GradientNorm, WithoutGradientsItIsZero) {
  auto mesh = alone();
  EXPECT_EQ(gradient_norm({ShardedParameter{}}, mesh), 0.0);
}

TEST(GradientNorm, OfARankToWhichAVectorLeavesNothingIsZero) {
  auto mesh = alone();
  ShardedParameter parameter = with_gradient(at::empty({0}));
  parameter.global_shape = {2};
  parameter.boxes = {{.offset = {0}, .start = {2}, .shape = {0}}};
  EXPECT_EQ(gradient_norm({parameter}, mesh), 0.0);
}

TEST(ClipGradients, ScalesDownToTheLargestNormAndNeverUp) {
  auto mesh = alone();
  std::vector<ShardedParameter> parameters = {with_gradient(at::full({3, 3}, 1.0)), with_gradient(at::full({4}, 2.0))};
  clip_gradients(parameters, 5.0, 1.0);
  EXPECT_NEAR(gradient_norm(parameters, mesh), 1.0, 1e-6);
  EXPECT_TRUE(at::allclose(parameters[1].grad, at::full({4}, 0.4)));
  clip_gradients(parameters, 1.0, 10.0);
  clip_gradients(parameters, 1.0, 0.0);
  EXPECT_NEAR(gradient_norm(parameters, mesh), 1.0, 1e-6);
}

}  // namespace
}  // namespace modular
