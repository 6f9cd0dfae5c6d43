// Kernels that replace libtorch's own on CPUs, called by libtorch's names: activations, layer norm and patch
// convolutions against libtorch's in float64, and linear layers against matmuls.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/model/functions.h"
#include "tests/ops/fused_functions.h"

namespace modular {
namespace {

using testing::differentiate, testing::Function, testing::Result;

std::vector<Tensor> compute_value_and_gradients(const Function& function, const std::vector<Tensor>& inputs) {
  Result result = differentiate(function, inputs);
  result.gradients.insert(result.gradients.begin(), result.value);
  return result.gradients;
}

class ReplacedKernels : public testing::WithFusedFunctions {
 protected:
  // For norms: a few roundings of the result.
  static double tolerance() { return GetParam() == at::kFloat ? 1e-6 : 8e-3; }

  // libtorch's float64 kernels are not replaced, except for linear.
  static void expect_float64_agreement(const Function& function, const std::vector<Tensor>& inputs) {
    expect_agreement(function, inputs, function);
  }
  static void expect_agreement(const Function& function, const std::vector<Tensor>& inputs, const Function& reference) {
    std::vector<Tensor> wide;
    for (const Tensor& input : inputs) wide.push_back(input.to(at::kDouble));
    const auto found = compute_value_and_gradients(function, inputs),
               expected = compute_value_and_gradients(reference, wide);
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].sizes(), expected[i].sizes());
      EXPECT_EQ(found[i].scalar_type(), GetParam());
      const double norm = expected[i].norm().item<double>();
      const double difference = (found[i].to(at::kDouble) - expected[i]).norm().item<double>();
      EXPECT_LE(difference, tolerance() * norm + 1e-30) << (i == 0 ? "value" : "gradient of input ") << i;
    }
  }
};

TEST_P(ReplacedKernels, Activations) {
  for (const char* const name : {"silu", "gelu", "gelu_pytorch_tanh", "quick_gelu"})
    for (const int64_t size : {1, 15, 1000, 70001}) {
      SCOPED_TRACE(::testing::Message() << name << " of " << size);
      expect_float64_agreement([=](const auto& in) { return activation(name, in[0]); }, {random({size}) * 3});
    }
}

TEST_P(ReplacedKernels, ActivationsOfNonContiguousTensors) {
  for (const char* const name : {"silu", "gelu", "gelu_pytorch_tanh", "quick_gelu"}) {
    SCOPED_TRACE(name);
    expect_float64_agreement([=](const auto& in) { return activation(name, in[0].transpose(1, 2)); },
                             {random({3, 5, 70})});
    expect_float64_agreement([=](const auto& in) { return activation(name, in[0].narrow(2, 3, 40)); },
                             {random({3, 5, 70})});
    expect_float64_agreement([=](const auto& in) { return activation(name, in[0].expand({4, 9})); }, {random({9})});
  }
}

TEST_P(ReplacedKernels, ActivationsOfExtremeValues) {
  const Tensor x = at::tensor({-1e4, -100.0, -88.5, -9.0, -0.0, 9.0, 88.5, 100.0, 1e4}).to(GetParam());
  for (const char* const name : {"silu", "gelu", "gelu_pytorch_tanh", "quick_gelu"}) {
    SCOPED_TRACE(name);
    const auto function = [=](const auto& in) { return activation(name, in[0]); };
    const auto found = compute_value_and_gradients(function, {x}),
               expected = compute_value_and_gradients(function, {x.to(at::kDouble)});
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(at::allclose(found[i].to(at::kDouble), expected[i], tolerance(), 1e-6)) << found[i] << expected[i];
    for (const Tensor& result : compute_value_and_gradients(function, {x * NAN}))
      EXPECT_TRUE(result.isnan().all().template item<bool>());
  }
}

// For large negative inputs GELU cancels unless the tail is computed separately.
TEST_P(ReplacedKernels, TheTailOfGeluKeepsItsDigits) {
  const Tensor x = at::linspace(-8.0, -1.0, 141).to(GetParam());
  const Tensor wide = x.to(at::kDouble), exact = wide * 0.5 * at::erfc(wide * -M_SQRT1_2);
  EXPECT_TRUE(at::allclose(at::gelu(x).to(at::kDouble), exact, GetParam() == at::kFloat ? 5e-6 : 4e-3, 0.0));
}

TEST_P(ReplacedKernels, LayerNorm) {
  const std::vector<std::vector<int64_t>> shapes = {{1, 3}, {3, 5}, {2, 7, 33}, {4, 9, 256}, {300, 257}, {64}};
  for (const auto& shape : shapes) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    const auto norm = [](const auto& in) { return at::layer_norm(in[0], {in[0].size(-1)}, in[1], in[2], 1e-5); };
    expect_float64_agreement(norm, {random(shape), random({shape.back()}), random({shape.back()})});
    expect_float64_agreement([](const auto& in) { return at::layer_norm(in[0], {in[0].size(-1)}); }, {random(shape)});
  }
}

TEST_P(ReplacedKernels, LayerNormOfAViewFarFromZero) {
  const Tensor x = GetParam() == at::kFloat ? random({6, 11, 40}) + 100.0 : random({6, 11, 40}) + 1.0;
  const auto function = [](const auto& in) { return at::layer_norm(in[0].transpose(0, 1), {40}, in[1], in[2], 1e-5); };
  const std::vector<Tensor> inputs = {x, random({40}), random({40})};
  const auto found = compute_value_and_gradients(function, inputs);
  const auto expected = compute_value_and_gradients(
      function, {inputs[0].to(at::kDouble), inputs[1].to(at::kDouble), inputs[2].to(at::kDouble)});
  for (size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(at::allclose(found[i].to(at::kDouble), expected[i], GetParam() == at::kFloat ? 1e-4 : 5e-2,
                             GetParam() == at::kFloat ? 1e-4 : 5e-2))
        << i;
}

TEST_P(ReplacedKernels, LayerNormKeepsItsStatisticsInFloat32) {
  const auto [y, mean, inverse] = at::native_layer_norm(random({5, 48}), {48}, {}, {}, 1e-5);
  EXPECT_EQ(mean.scalar_type(), at::kFloat);
  EXPECT_EQ(inverse.sizes(), at::IntArrayRef({5, 1}));
}

TEST_P(ReplacedKernels, LayerNormRejectsAWeightOfAnotherSize) {
  EXPECT_THROW(at::layer_norm(random({2, 64}), {64}, random({32})), c10::Error);
  EXPECT_THROW(at::layer_norm(random({2, 64}), {64}, random({64}), random({1})), c10::Error);
}

TEST_P(ReplacedKernels, NormsAndActivationsOfEmptyTensors) {
  EXPECT_EQ(at::layer_norm(random({0, 8}), {8}).sizes(), at::IntArrayRef({0, 8}));
  EXPECT_EQ(at::gelu(random({0, 8})).sizes(), at::IntArrayRef({0, 8}));
}

// The names of the libtorch operations that `work` calls.
std::vector<std::string> record_calls(const std::function<void()>& work) {
  static std::vector<std::string> names;
  names.clear();
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        names.emplace_back(function.name());
        return nullptr;
      }));
  work();
  at::removeCallback(handle);
  return names;
}

Function convolution(int64_t stride, int64_t padding = 0, int64_t dilation = 1) {
  return [=](const auto& in) {
    return at::conv2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), stride, padding, dilation).contiguous();
  };
}

TEST_P(ReplacedKernels, ConvolutionsIntoPatches) {
  expect_float64_agreement(convolution(4), {random({2, 3, 12, 8}), random({10, 3, 4, 4}), random({10})});
  expect_float64_agreement(convolution(4), {random({2, 3, 12, 8}), random({10, 3, 4, 4})});
  // The last rows and columns are in no patch.
  expect_float64_agreement(convolution(4), {random({1, 2, 15, 9}), random({5, 2, 4, 4}), random({5})});
  // A channels-last image.
  expect_float64_agreement([](const auto& in) { return convolution(4)({in[0].permute({0, 3, 1, 2}), in[1]}); },
                           {random({2, 12, 8, 3}), random({10, 3, 4, 4})});
}

TEST_P(ReplacedKernels, PatchConvolutionsUseGemm) {
  for (const std::vector<int64_t>& stride : std::vector<std::vector<int64_t>>{{4}, {4, 4}}) {
    const Tensor image = random({2, 3, 12, 8}).requires_grad_(), weight = random({10, 3, 4, 4}).requires_grad_();
    Tensor y;
    const auto forward = record_calls([&] { y = at::conv2d(image, weight, random({10}), stride); });
    EXPECT_EQ(std::ranges::count(forward, "aten::addmm"), 1);
    EXPECT_TRUE(y.is_contiguous());
    const auto backward = record_calls([&] { y.sum().backward(); });
    EXPECT_EQ(std::ranges::count(backward, "aten::mm"), 2);
  }
}

TEST_P(ReplacedKernels, OtherConvolutionsAreLibtorchs) {
  expect_float64_agreement(convolution(2), {random({2, 3, 12, 8}), random({10, 3, 4, 4}), random({10})});
  expect_float64_agreement(convolution(4, 1), {random({2, 3, 12, 8}), random({10, 3, 4, 4}), random({10})});
  expect_float64_agreement(convolution(4, 0, 2), {random({2, 3, 12, 8}), random({10, 3, 4, 4}), random({10})});
}

TEST_P(ReplacedKernels, Linear) {
  const auto linear = [](const auto& in) { return at::linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor()); };
  const auto reference = [](const auto& in) {
    const Tensor y = at::matmul(in[0], in[1].t());
    return in.size() > 2 ? y + in[2] : y;
  };
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{7}, {3, 7}, {2, 3, 7}, {2, 1, 3, 7}}) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    expect_agreement(linear, {random(shape), random({5, 7}), random({5})}, reference);
    expect_agreement(linear, {random(shape), random({5, 7})}, reference);
  }
  expect_agreement([](const auto& in) { return at::linear(in[0].transpose(0, 1), in[1].t()); },
                   {random({4, 3, 7}), random({7, 5})},
                   [](const auto& in) { return at::matmul(in[0].transpose(0, 1), in[1]); });
}

TEST_P(ReplacedKernels, LinearComputesOnlyRequestedGradients) {
  for (const int requested : {1, 2, 3, 4, 5, 6, 7}) {
    SCOPED_TRACE(requested);
    std::vector<Tensor> inputs = {random({2, 3, 7}), random({5, 7}), random({5})};
    for (int i = 0; i < 3; ++i) inputs[i].requires_grad_((requested >> i & 1) != 0);
    const Tensor y = at::linear(inputs[0], inputs[1], inputs[2]);
    y.sum().backward();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(inputs[i].grad().defined(), inputs[i].requires_grad());
    if (inputs[2].requires_grad()) EXPECT_TRUE(at::allclose(inputs[2].grad(), at::full_like(inputs[2], 6)));
  }
  EXPECT_FALSE(at::linear(random({3, 7}), random({5, 7})).requires_grad());
}

// An input is saved only for the gradient of a weight.
TEST_P(ReplacedKernels, LinearSavesNoInputOfAFrozenLayer) {
  Tensor x = random({3, 7}).requires_grad_() * 2;
  const auto use_count = x.storage().use_count();
  const Tensor frozen = at::linear(x, random({5, 7}));
  EXPECT_EQ(x.storage().use_count(), use_count);
  EXPECT_EQ(x.use_count(), 1);
  const Tensor trained = at::linear(x, random({5, 7}).requires_grad_());
  EXPECT_GT(x.use_count(), 1);
}

TEST_P(ReplacedKernels, LinearOutputsCanBeModifiedInPlace) {
  Tensor y = at::linear(random({2, 3, 7}), random({5, 7}).requires_grad_(), random({5}).requires_grad_());
  y.mul_(2);
  y.sum().backward();
}

// For bfloat16: the sum in float32, rounded once.
TEST_P(ReplacedKernels, Sums) {
  const auto expected = [](const Tensor& left, const Tensor& right) {
    return (left.to(at::kFloat) + right.to(at::kFloat)).to(GetParam());
  };
  const auto expect_sum = [&](const Tensor& left, const Tensor& right) {
    const Tensor sum = expected(left, right);
    EXPECT_TRUE(at::equal(left + right, sum)) << left.sizes() << left.strides() << right.strides();
    EXPECT_EQ((left + right).strides(), (left.to(at::kDouble) + right.to(at::kDouble)).strides());
    const Tensor in_place = left.clone();
    EXPECT_EQ(&in_place.add_(right), &in_place);
    EXPECT_TRUE(at::equal(in_place, sum)) << left.sizes() << left.strides() << right.strides();
  };
  for (const int64_t size : {1, 31, 70001}) expect_sum(random({size}), random({size}));
  expect_sum(random({5, 7, 40}).transpose(0, 2), random({5, 7, 40}).transpose(0, 2));
  expect_sum(random({5, 40}), random({40, 5}).t());
  expect_sum(random({5, 7, 40}).narrow(1, 2, 3), random({5, 7, 40}).narrow(1, 2, 3));
  expect_sum(random({70, 90}), random({90}));
  expect_sum(random({70, 90}), random({}));
  expect_sum(random({0, 3}), random({0, 3}));
  const Tensor x = random({1000}), own = x.clone();
  const Tensor memory = x.clone();
  EXPECT_THROW(memory.narrow(0, 1, 900).add_(memory.narrow(0, 0, 900)), c10::Error);
  EXPECT_TRUE(at::equal(own.add_(own), expected(x, x)));
  EXPECT_TRUE(at::equal(at::add(x, x, 2), expected(x, x * 2)));
  EXPECT_EQ((x + at::ones({1000}, at::kDouble)).scalar_type(), at::kDouble);
  const Tensor extremes = at::tensor({INFINITY, -INFINITY, 3e38, 1e-30, -0.0}).to(GetParam());
  expect_sum(extremes, at::tensor({1.0, 2.0, 3e38, -1e-30, -0.0}).to(GetParam()));
  EXPECT_TRUE((extremes - INFINITY + extremes)[0].isnan().template item<bool>());
}

// The gradient of a matrix as an embedding is added in place to its gradient as a projection.
TEST_P(ReplacedKernels, TiedGradientsAreAddedInPlace) {
  const Tensor weight = random({50, 8}).requires_grad_(), ids = at::arange(6).view({2, 3});
  const Tensor hidden = at::embedding(weight, ids);
  const Tensor loss = at::linear(hidden, weight).sum();
  std::vector<std::string> additions = record_calls([&] { loss.backward(); });
  std::erase_if(additions, [](const std::string& name) { return !name.starts_with("aten::add"); });
  EXPECT_EQ(additions, std::vector<std::string>{"aten::add_"});
  const Tensor expected = hidden.detach().sum(at::IntArrayRef{0, 1}).repeat({50, 1});
  expected.narrow(0, 0, 6).add_(weight.detach().sum(0));
  EXPECT_TRUE(at::allclose(weight.grad(), expected, tolerance(), 20 * tolerance()));
}

INSTANTIATE_TEST_SUITE_P(Types, ReplacedKernels, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

}  // namespace
}  // namespace modular
