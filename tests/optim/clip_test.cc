// The norm of the full gradient, and clipping by norm. tests/train compares norms over several ranks with one process.
#include "runtime/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "tests/support/counted_device.h"

namespace modular {
namespace {

ShardedParameter with_gradient(const at::Tensor& gradient, bool owner = true) {
  ShardedParameter result;
  result.global_shape = gradient.sizes().vec();
  result.local = at::zeros_like(gradient);
  result.grad = gradient;
  const std::vector<int64_t> origin(result.global_shape.size(), 0);
  if (gradient.numel() > 0)
    result.slices = {{.offset = origin, .start = origin, .shape = result.global_shape, .owner = owner}};
  return result;
}

double compute_norm(const std::vector<ShardedParameter>& parameters, Mesh& mesh) {
  return find_gradient_norm(parameters, mesh).norm.item<double>();
}

Mesh alone() { return Mesh(Environment{}, MeshShape{}); }

TEST(GradientNorm, CountsEverySliceOnItsOwner) {
  auto mesh = alone();
  const std::vector<ShardedParameter> parameters = {
      with_gradient(at::full({3, 3}, 1.0)), with_gradient(at::full({4}, 2.0)),
      with_gradient(at::full({9}, 100.0), /*owner=*/false), with_gradient(at::empty({0}))};
  EXPECT_NEAR(compute_norm(parameters, mesh), 5.0, 1e-12);
}

TEST(GradientNorm, CountsOnlyOwnedSlicesOfAParameter) {
  auto mesh = alone();
  ShardedParameter parameter = with_gradient(at::tensor({3.0F, 100.0F, 4.0F}));
  parameter.slices = {{.offset = {0}, .start = {0}, .shape = {1}},
                      {.offset = {1}, .start = {1}, .shape = {1}, .owner = false},
                      {.offset = {2}, .start = {2}, .shape = {1}}};
  EXPECT_NEAR(compute_norm({parameter}, mesh), 5.0, 1e-12);
}

TEST(GradientNorm, IsExactForManyElements) {
  auto mesh = alone();
  const int64_t count = (int64_t{1} << 26) + 5;
  const double value = 0.1F;
  EXPECT_NEAR(compute_norm({with_gradient(at::full({count}, value))}, mesh) / (value * std::sqrt(count)), 1.0, 1e-6);
}

TEST(GradientNorm, IsZeroWithoutGradients) {
  auto mesh = alone();
  EXPECT_EQ(compute_norm({ShardedParameter{}}, mesh), 0.0);
}

TEST(GradientNorm, IsZeroOnARankWithAnEmptySlice) {
  auto mesh = alone();
  ShardedParameter parameter = with_gradient(at::empty({0}));
  parameter.global_shape = {2};
  parameter.slices = {{.offset = {0}, .start = {2}, .shape = {0}}};
  EXPECT_EQ(compute_norm({parameter}, mesh), 0.0);
}

TEST(GradientNorm, ChecksThatNormAndLossAreFinite) {
  auto mesh = alone();
  const auto is_finite = [&](double gradient, double loss) {
    return find_gradient_norm({with_gradient(at::full({4}, gradient))}, mesh, at::full({}, loss))
        .is_finite.item<double>();
  };
  EXPECT_EQ(is_finite(2.0, 3.0), 1.0);
  EXPECT_EQ(is_finite(2.0, NAN), 0.0);
  EXPECT_EQ(is_finite(2.0, -INFINITY), 0.0);
  EXPECT_EQ(is_finite(NAN, 3.0), 0.0);
  EXPECT_EQ(is_finite(INFINITY, 3.0), 0.0);
}

struct Norm {
  double norm;
  bool is_finite = true;
};

/// Parameterized by optimizer, and by whether the parameters are on a device whose values the host does not read.
class Clipped : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  /// Updates a parameter of ones once with gradients of `gradient` and returns the new value; `norm` is the claimed
  /// norm.
  static double updated(double gradient, double max_norm, const Norm& norm) {
    const auto& [optimizer, is_on_device] = GetParam();
    const at::Device device = is_on_device ? testing::counted_device() : at::Device(at::kCPU);
    const auto number = [&](double value) {
      return at::full({}, value, at::TensorOptions().dtype(at::kDouble).device(device));
    };
    Mesh mesh({}, {}, {.device = device});
    std::vector<ShardedParameter> parameters = {with_gradient(at::full({3, 3}, gradient).to(device))};
    parameters[0].layer_matrix = true;
    parameters[0].local.fill_(1.0);
    Optimizer(parameters, {.name = optimizer, .eps = 0.5, .momentum = 0.0}, mesh)
        .step(/*lr=*/0.1,
              clipping_to(max_norm, {.norm = number(norm.norm), .is_finite = number(norm.is_finite ? 1.0 : 0.0)}));
    return parameters[0].local.cpu()[0][0].item<double>();
  }
};

TEST_P(Clipped, ScalesDownToTheMaximumNormAndNeverUp) {
  EXPECT_EQ(updated(2.0, 1.0, {4.0}), updated(0.5, 0.0, {4.0}));
  EXPECT_EQ(updated(2.0, 4.0, {4.0}), updated(2.0, 0.0, {4.0}));
  EXPECT_EQ(updated(2.0, 8.0, {4.0}), updated(2.0, 0.0, {4.0}));
}

TEST_P(Clipped, SkipsNonFiniteUpdates) {
  EXPECT_EQ(updated(NAN, 1.0, {NAN, /*is_finite=*/false}), 1.0);
  EXPECT_EQ(updated(2.0, 1.0, {6.0, /*is_finite=*/false}), 1.0) << "the loss is not finite";
  EXPECT_NE(updated(2.0, 1.0, {6.0}), 1.0);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Clipped,
                         ::testing::Combine(::testing::Values("adamw", "sgd", "adafactor", "muon"), ::testing::Bool()),
                         [](const auto& test) {
                           return std::get<0>(test.param) + (std::get<1>(test.param) ? "_on_a_device" : "");
                         });

}  // namespace
}  // namespace modular
