// Each fused function against its plain ATen form: values and gradients, over sizes that fill no vector, non-contiguous
// views, both element types, and empty tensors.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "runtime/model/functions.h"
#include "runtime/model/state_space.h"
#include "runtime/ops/cpu/kernels.h"
#include "tests/ops/fused_functions.h"

namespace modular {
namespace {

using testing::differentiate, testing::Function, testing::Result;

// The norm of the difference divided by the norm of `expected`.
double relative_difference(const Tensor& found, const Tensor& expected) {
  EXPECT_EQ(found.sizes(), expected.sizes());
  if (expected.numel() == 0) return 0.0;
  const Tensor difference = found.to(at::kDouble) - expected.to(at::kDouble);
  return difference.norm().item<double>() / (expected.to(at::kDouble).norm().item<double>() + 1e-30);
}

// The plain form runs in float64 on the same numbers, so that only the fused form's rounding differs.
void expect_agreement(const Function& fused_form, const Function& plain_form, const std::vector<Tensor>& inputs,
                      double tolerance) {
  std::vector<Tensor> wide;
  for (const Tensor& input : inputs) wide.push_back(input.to(at::kDouble));
  const Result found = differentiate(fused_form, inputs), expected = differentiate(plain_form, wide);
  EXPECT_LE(relative_difference(found.value, expected.value), tolerance) << "value";
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(found.gradients[i].scalar_type(), inputs[i].scalar_type());
    EXPECT_LE(relative_difference(found.gradients[i], expected.gradients[i]), tolerance) << "gradient of input " << i;
  }
}

// The plain norm widens only to float32; this is the formula in the type of its arguments.
Tensor exact_rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return weight * (x * at::rsqrt(x.pow(2).mean(-1, /*keepdim=*/true) + eps));
}

class FusedTest : public testing::WithFusedFunctions {
 protected:
  // Twice the rounding of one element for float32; one rounding of the result for bfloat16.
  double tolerance() const { return GetParam() == at::kFloat ? 5e-7 : 8e-3; }
};

TEST_P(FusedTest, RmsNorm) {
  const std::vector<std::vector<int64_t>> shapes = {{1, 3}, {3, 5}, {2, 7, 33}, {4, 9, 256}, {300, 257}, {64}};
  for (const auto& shape : shapes) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    expect_agreement([](const auto& in) { return rms_norm(in[0], in[1], 1e-6); },
                     [](const auto& in) { return exact_rms_norm(in[0], in[1], 1e-6); },
                     {random(shape), random({shape.back()})}, tolerance());
  }
}

TEST_P(FusedTest, RmsNormWithAFloat32WeightRoundsOnce) {
  expect_agreement([](const auto& in) { return rms_norm(in[0], in[1], 1e-6); },
                   [](const auto& in) { return exact_rms_norm(in[0], in[1], 1e-6); },
                   {random({5, 48}), random({48}).to(at::kFloat)}, tolerance());
  const Tensor x = random({64, 48}), weight = random({48}).to(at::kFloat);
  const Tensor once = rms_norm(x.to(at::kFloat), weight, 1e-6).to(x.scalar_type());
  EXPECT_LE((rms_norm(x, weight, 1e-6) != once).sum().item<int64_t>(), 3);  // sums in a different order
}

TEST_P(FusedTest, RmsNormOfAView) {
  expect_agreement([](const auto& in) { return rms_norm(in[0].transpose(0, 1), in[1], 1e-5); },
                   [](const auto& in) { return exact_rms_norm(in[0].transpose(0, 1), in[1], 1e-5); },
                   {random({6, 11, 40}), random({40})}, tolerance());
}

TEST_P(FusedTest, RmsNormOfAnEmptyTensor) {
  const Tensor y = rms_norm(random({0, 8}), random({8}), 1e-6);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({0, 8}));
}

TEST_P(FusedTest, GatedActivation) {
  for (const char* name : {"silu", "gelu_pytorch_tanh", "gelu", "relu"})
    for (const int64_t size : {1, 7, 16, 1000, 70001}) {
      SCOPED_TRACE(::testing::Message() << name << " of " << size);
      expect_agreement([=](const auto& in) { return gated_activation(name, in[0], in[1]); },
                       [=](const auto& in) { return plain::gated_activation(name, in[0], in[1]); },
                       {random({size}) * 3, random({size})}, tolerance());
    }
}

TEST_P(FusedTest, GatedActivationOfHalvesOfOneTensor) {
  const auto halves = [](const Tensor& both) { return both.chunk(2, -1); };
  expect_agreement([&](const auto& in) { return gated_activation("silu", halves(in[0])[0], halves(in[0])[1]); },
                   [&](const auto& in) { return plain::gated_activation("silu", halves(in[0])[0], halves(in[0])[1]); },
                   {random({5, 3, 30})}, tolerance());
}

TEST_P(FusedTest, GatedActivationOfExtremeValues) {
  const Tensor gate = at::tensor({-1e4, -100.0, -88.5, -0.0, 88.5, 100.0, 1e4}).to(GetParam());
  for (const char* name : {"silu", "gelu_pytorch_tanh"}) {
    const Tensor found = gated_activation(name, gate, at::ones_like(gate));
    const Tensor expected = plain::gated_activation(name, gate, at::ones_like(gate));
    EXPECT_TRUE(at::allclose(found, expected, 1e-6, 1e-30)) << name << '\n' << found;
  }
  EXPECT_TRUE(gated_activation("silu", gate * NAN, gate).isnan().all().item<bool>());
}

TEST_P(FusedTest, Rotary) {
  for (const int64_t tables : {1, 3}) {
    const int64_t batch = 3, heads = 2, seq = 5, dim = 6;
    SCOPED_TRACE(::testing::Message() << tables << " tables");
    // The two halves of the tables are independent: gradients are correct even if it is not a rotation.
    const Tensor cos = random({tables, seq, dim}), sin = random({tables, seq, dim});
    const auto with = [&](const auto& rotate, const Tensor& x) {
      return rotate(x, cos.to(x.scalar_type()), sin.to(x.scalar_type()));
    };
    expect_agreement([&](const auto& in) { return with(rotary, in[0]); },
                     [&](const auto& in) { return with(plain::rotary, in[0]); }, {random({batch, heads, seq, dim})},
                     tolerance());
    // In the memory layout of projections.
    expect_agreement([&](const auto& in) { return with(rotary, in[0].transpose(1, 2)); },
                     [&](const auto& in) { return with(plain::rotary, in[0].transpose(1, 2)); },
                     {random({batch, seq, heads, dim})}, tolerance());
  }
}

TEST_P(FusedTest, CrossEntropy) {
  for (const int64_t vocab : {1, 3, 17, 256, 1001}) {
    SCOPED_TRACE(::testing::Message() << vocab << " classes");
    Tensor targets = at::randint(vocab, {2, 19});
    targets[0][3] = kIgnoredTarget;
    targets[1][18] = kIgnoredTarget;
    expect_agreement([&](const auto& in) { return cross_entropy(in[0], targets); },
                     [&](const auto& in) {
                       return at::cross_entropy_loss(in[0].flatten(0, -2), targets.flatten(), {}, at::Reduction::Sum,
                                                     kIgnoredTarget);
                     },
                     {random({2, 19, vocab}) * 5}, tolerance());
  }
}

Tensor five_targets() {
  const Tensor targets = at::arange(5) * 2;
  targets[2] = kIgnoredTarget;
  return targets;
}

TEST_P(FusedTest, CrossEntropyKeepsSharedLogits) {
  const Tensor hidden = random({5, 7}).requires_grad_(true), targets = five_targets();
  const Tensor weight = random({7, 11});
  const auto gradient = [&](bool keep_graph, Tensor* kept) {
    hidden.mutable_grad().reset();
    Tensor loss;
    {
      const Tensor logits = hidden.matmul(weight).unflatten(0, {5, 1});
      if (kept) *kept = logits;
      loss = fused.cross_entropy(logits, targets.unsqueeze(1));
    }
    const Tensor before = kept ? kept->detach().clone() : Tensor();
    loss.backward({}, keep_graph);
    if (kept) EXPECT_TRUE(at::equal(*kept, before));
    if (keep_graph) {
      const Tensor first = hidden.grad().clone();
      hidden.mutable_grad().reset();
      loss.backward();
      EXPECT_TRUE(at::equal(hidden.grad(), first)) << "the second backward of a graph";
    }
    return hidden.grad().clone();
  };
  Tensor kept;
  const Tensor expected = gradient(false, &kept);
  EXPECT_TRUE(at::equal(gradient(false, nullptr), expected));
  EXPECT_TRUE(at::equal(gradient(true, nullptr), expected));
}

TEST_P(FusedTest, CrossEntropyReusesTheMemoryOfUnsharedLogits) {
  const void *logits_at = nullptr, *gradient_at = nullptr;
  const Tensor hidden = random({5, 7}).requires_grad_(true), weight = random({7, 11});
  Tensor loss;
  {
    const Tensor logits = hidden.matmul(weight).unflatten(0, {5, 1});
    logits_at = logits.const_data_ptr();
    logits.register_hook([&](const Tensor& gradient) { gradient_at = gradient.const_data_ptr(); });
    loss = fused.cross_entropy(logits, five_targets().unsqueeze(1));
  }
  loss.backward();
  EXPECT_EQ(gradient_at, logits_at);
}

TEST_P(FusedTest, CrossEntropyOfIgnoredTargetsIsZero) {
  const Tensor logits = random({4, 10}).requires_grad_();
  const Tensor loss = cross_entropy(logits, at::full({4}, kIgnoredTarget, at::kLong));
  EXPECT_EQ(loss.item<float>(), 0.0f);
  EXPECT_EQ(torch::autograd::grad({loss}, {logits})[0].abs().max().item<float>(), 0.0f);
}

TEST_P(FusedTest, CrossEntropyRejectsAnInvalidClass) {
  EXPECT_THROW(cross_entropy(random({2, 10}), at::tensor({3, 10}, at::kLong)), c10::IndexError);
}

TEST(Fused, DecayBetweenKeepsTheDigitsOfIntervals) {
  const FusedFunctions before = fused;
  install_fused_functions();
  at::manual_seed(1);
  for (const int64_t length : {1, 2, 7, 64, 257}) {
    SCOPED_TRACE(::testing::Message() << length << " steps");
    // Prefix sums reach thousands, which in float32 would leave three decimal places.
    for (const double rate : {0.01, 30.0}) {
      const Tensor steps = at::rand({2, 3, length}) * -rate;
      expect_agreement([](const auto& in) { return fused.decay_between(in[0]); },
                       [](const auto& in) { return plain::decay_between(in[0]); }, {steps}, 1e-6);
    }
  }
  EXPECT_EQ(fused.decay_between(at::zeros({0, 4})).sizes(), (std::vector<int64_t>{0, 4, 4}));
  fused = before;
}

TEST_P(FusedTest, SecondDerivativesAreRejected) {
  const Tensor x = random({2, 8}).requires_grad_(), weight = random({8});
  const Tensor y = rms_norm(x, weight, 1e-6).sum();
  EXPECT_THROW(torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true), c10::Error);
}

INSTANTIATE_TEST_SUITE_P(Types, FusedTest, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return std::string(at::toString(info.param)); });

TEST(FusedFunctionsTest, OtherTypesKeepThePlainForm) {
  const FusedFunctions before = fused;
  install_fused_functions();
  const Tensor x = at::randn({3, 8}, at::kDouble), weight = at::randn({8}, at::kDouble);
  EXPECT_TRUE(at::equal(rms_norm(x, weight, 1e-6), plain::rms_norm(x, weight, 1e-6)));
  EXPECT_TRUE(at::equal(gated_activation("silu", x, x), plain::gated_activation("silu", x, x)));
  fused = before;
}

}  // namespace
}  // namespace modular
