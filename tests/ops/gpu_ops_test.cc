// The fused functions on a GPU against their plain ATen forms in float64 on the CPU: values and gradients, for both
// element types. Tests that need no GPU are in cuda_kernels_test.cc.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/mesh/libraries.h"
#include "runtime/model/attention.h"
#include "runtime/model/functions.h"
#include "runtime/model/state_space.h"
#include "tests/ops/fused_functions.h"

namespace modular {
namespace {

using testing::Function, testing::Result;

class GpuOps : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) GTEST_SKIP() << "no GPU";
    cuda_library().use_device(gpu());
    before_ = fused;
    at::manual_seed(1);
  }
  void TearDown() override {
    if (gpu_count() > 0) fused = before_;
  }

  static at::Device gpu() { return {at::kCUDA, 0}; }
  static Tensor random(at::IntArrayRef sizes) { return at::randn(sizes).to(GetParam()); }
  static double tolerance() { return GetParam() == at::kFloat ? 3e-6 : 1e-2; }

  /// Compares value and gradients of `function` on the GPU with those of `plain` in float64 on the CPU.
  static void expect_agreement(const Function& function, const Function& plain, const std::vector<Tensor>& inputs,
                               double tolerance = GpuOps::tolerance()) {
    std::vector<Tensor> on_gpu, wide;
    for (const Tensor& input : inputs) {
      on_gpu.push_back(input.to(gpu()));
      wide.push_back(input.to(at::kDouble));
    }
    install_fused_functions();
    const Result found = differentiate_on_gpu(function, on_gpu);
    fused = {};
    const Result expected = testing::differentiate(plain, wide);
    expect_near(found.value, expected.value, tolerance, "value");
    for (size_t i = 0; i < inputs.size(); ++i)
      expect_near(found.gradients[i], expected.gradients[i], tolerance, "gradient of input " + std::to_string(i));
  }
  static void expect_agreement(const Function& function, const std::vector<Tensor>& inputs) {
    expect_agreement(function, function, inputs);
  }

 private:
  static Result differentiate_on_gpu(const Function& function, const std::vector<Tensor>& inputs) {
    std::vector<Tensor> leaves;
    for (const Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_());
    const Tensor value = function(leaves);
    at::manual_seed(7);
    const Tensor upstream = at::randn(value.sizes(), at::kFloat).to(gpu(), value.scalar_type());
    return {value.detach(), torch::autograd::grad({value}, leaves, {upstream})};
  }

  static void expect_near(const Tensor& found, const Tensor& expected, double tolerance, const std::string& what) {
    ASSERT_TRUE(found.is_cuda()) << what;
    ASSERT_EQ(found.sizes(), expected.sizes()) << what;
    const Tensor difference = found.cpu().to(at::kDouble) - expected;
    EXPECT_LE(difference.norm().item<double>(), tolerance * (expected.norm().item<double>() + 1e-6)) << what;
  }

  FusedFunctions before_;
};

TEST_P(GpuOps, RmsNorm) {
  const auto exact = [](const auto& in) {
    return in[1] * (in[0] * at::rsqrt(in[0].pow(2).mean(-1, /*keepdim=*/true) + 1e-6));
  };
  for (const auto& shape : std::vector<std::vector<int64_t>>{{1, 3}, {2, 7, 33}, {300, 257}, {65, 768}, {9, 4096}}) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    const auto norm = [](const auto& in) { return rms_norm(in[0], in[1], 1e-6); };
    expect_agreement(norm, exact, {random(shape), random({shape.back()})});
    expect_agreement(norm, exact, {random(shape), random({shape.back()}).to(at::kFloat)});
  }
}

TEST_P(GpuOps, LayerNorm) {
  for (const int64_t hidden : {33, 768, 3072})
    for (const int64_t rows : {5, 3000}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows of " << hidden);
      expect_agreement([&](const auto& in) { return at::layer_norm(in[0], {hidden}, in[1], in[2], 1e-5); },
                       {random({rows, hidden}) + 1, random({hidden}), random({hidden})});
      expect_agreement([&](const auto& in) { return at::layer_norm(in[0], {hidden}); }, {random({rows, hidden})});
    }
}

TEST_P(GpuOps, LayerNormWithoutAKernelOfOurs) {
  expect_agreement([](const auto& in) { return at::layer_norm(in[0], {3, 40}, in[1]); },
                   {random({5, 3, 40}), random({3, 40})});
}

TEST_P(GpuOps, GatedActivations) {
  for (const char* name : {"silu", "gelu_pytorch_tanh"})
    for (const int64_t features : {1, 33, 4096})
      expect_agreement([&](const auto& in) { return gated_activation(name, in[0], in[1]); },
                       {random({2, 5, features}), random({2, 5, features})});
}

TEST_P(GpuOps, Rotary) {
  for (const int64_t dim : {6, 64, 128}) {
    const Tensor cos = random({1, 9, dim}), sin = random({1, 9, dim});
    const auto rotate = [&](const auto& in) {
      const auto like = [&](const Tensor& table) { return table.to(in[0].options()); };
      return rotary(in[0].transpose(1, 2), like(cos), like(sin));
    };
    expect_agreement(rotate, {random({2, 9, 3, dim})});
  }
}

TEST_P(GpuOps, CrossEntropy) {
  for (const int64_t vocabulary : {1, 9, 257, 50257}) {
    const Tensor targets = at::randint(0, vocabulary, {6}, at::kLong);
    targets[2] = kIgnoredTarget;
    const auto loss = [&](const auto& in) { return cross_entropy(3 * in[0], targets.to(in[0].device())); };
    expect_agreement(loss, {random({6, vocabulary})});
  }
}

TEST_P(GpuOps, Linear) {
  // Including numbers of features that are not multiples of 16 bytes, as in GPT-2's vocabulary.
  for (const int64_t out : {64, 257, 1027}) {
    expect_agreement([](const auto& in) { return at::linear(in[0], in[1], in[2]); },
                     {random({3, 50, 40}), random({out, 40}), random({out})});
    expect_agreement([](const auto& in) { return at::linear(in[0], in[1]); }, {random({3, 50, 40}), random({out, 40})});
  }
}

TEST_P(GpuOps, DropoutMatchesTheCpu) {
  const Tensor samples = at::tensor({5, 71}, at::kLong);
  for (const int64_t columns : {3, 64, 200}) {
    const auto drop = [&](const auto& in) {
      const DropoutRng rng = {.samples = samples.to(in[0].device()), .key = 12345, .p = 0.3, .part = 1};
      return fused.dropout ? fused.dropout(in[0], rng) : plain::dropout(in[0], rng);
    };
    expect_agreement(drop, {random({2, 4, columns})});
  }
}

AttentionMask mask_on(const at::Device& device, const AttentionMask& mask) {
  AttentionMask moved = mask;
  moved.tensors([&](Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.to(device);
  });
  return moved;
}

TEST_P(GpuOps, AttentionWithEveryKindOfMask) {
  const int64_t batch = 2, seq = 128;
  const Tensor padding = at::ones({batch, seq}, at::kBool);
  padding[0].slice(0, 100).fill_(false);
  const Tensor documents = at::arange(seq).div(37, "floor").to(at::kLong).expand({batch, seq}).contiguous();
  const std::vector<AttentionMask> masks = {{.causal = true},
                                            {.causal = false},
                                            {.causal = true, .reach = 20},
                                            {.causal = false, .padding = padding},
                                            {.causal = true, .padding = padding},
                                            {.causal = true, .documents = documents}};
  for (const AttentionMask& mask : masks)
    for (const int64_t key_value_heads : {4, 2}) {
      SCOPED_TRACE(::testing::Message() << "causal " << mask.causal << ", reach " << mask.reach.value_or(-1)
                                        << ", padding " << mask.padding.defined() << ", documents "
                                        << mask.documents.defined() << ", " << key_value_heads << " key/value heads");
      const auto mix = [&](const auto& in) {
        return attention(in[0].transpose(1, 2), in[1].transpose(1, 2), in[2].transpose(1, 2),
                         mask_on(in[0].device(), mask), 0.125);
      };
      expect_agreement(mix, {random({batch, seq, 4, 64}), random({batch, seq, key_value_heads, 64}),
                             random({batch, seq, key_value_heads, 64})});
    }
}

TEST_P(GpuOps, AttentionWithDropout) {
  const Tensor samples = at::tensor({5, 71}, at::kLong);
  const auto mix = [&](const auto& in) {
    const DropoutRng rng = {.samples = samples.to(in[0].device()), .key = 12345, .p = 0.3, .part = 0};
    const AttentionMask mask = {.causal = true};
    return fused.attention ? fused.attention(in[0], in[1], in[2], mask, 0.125, &rng)
                           : plain::attention_dropping(in[0], in[1], in[2], mask, 0.125, std::nullopt, rng);
  };
  expect_agreement(mix, {random({2, 4, 70, 64}), random({2, 4, 70, 64}), random({2, 4, 70, 64})});
}

INSTANTIATE_TEST_SUITE_P(Types, GpuOps, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return c10::toString(info.param); });

}  // namespace
}  // namespace modular
