// Fused attention against the formula written out in float64: values and gradients, with grouped heads, windows and
// padding, over sizes that fill no block.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <vector>

#include "runtime/model/functions.h"
#include "runtime/ops/fused.h"

namespace modular {
namespace {

struct Case {
  int64_t batch, heads, key_value_heads, seq, dim;
  int64_t window = 0;
  bool padding = false;
};

Tensor mask_of(const Case& of) {
  Tensor padding;
  if (of.padding) {
    padding = at::ones({of.batch, of.seq}, at::kLong);
    for (int64_t i = 0; i < of.batch; ++i) {
      padding[i].slice(0, of.seq - (i * 7) % of.seq).zero_();  // at the end, a different length each
      if (i % 2) padding[i].slice(0, 0, of.seq / 3).zero_();   // and before the first token: those queries see nothing
    }
  }
  return causal_mask(padding, of.seq, of.window, at::kCPU);
}

// softmax(scale * query key^T) value over what the mask lets each query see; 0 where it sees nothing.
Tensor exact_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& given, double scale) {
  const int64_t group = query.size(1) / key.size(1), seq = query.size(2);
  const Tensor mask = given.defined() ? given : at::ones({seq, seq}, at::kBool).tril();
  const Tensor scores = at::matmul(query, key.repeat_interleave(group, 1).transpose(-2, -1)) * scale;
  const Tensor weights = at::softmax(scores.masked_fill(~mask, -1e30), -1) * mask;
  return at::matmul(weights, value.repeat_interleave(group, 1)).transpose(1, 2).flatten(2);
}

double relative_difference(const Tensor& found, const Tensor& expected) {
  EXPECT_EQ(found.sizes(), expected.sizes());
  const Tensor difference = found.to(at::kDouble) - expected;
  return difference.norm().item<double>() / (expected.norm().item<double>() + 1e-30);
}

class FusedAttentionTest : public testing::TestWithParam<std::tuple<Case, at::ScalarType>> {};

TEST_P(FusedAttentionTest, AgreesWithTheFormula) {
  const auto& [of, type] = GetParam();
  const FusedFunctions before = fused;
  install_fused_functions();
  at::manual_seed(3);
  // As projections hand them over: [batch, seq, heads, dim] in memory.
  std::vector<Tensor> inputs, wide;
  for (const int64_t heads : {of.heads, of.key_value_heads, of.key_value_heads}) {
    const Tensor memory = at::randn({of.batch, of.seq, heads, of.dim}).to(type);
    inputs.push_back(memory.transpose(1, 2).requires_grad_());
    wide.push_back(memory.transpose(1, 2).to(at::kDouble).requires_grad_());
  }
  const Tensor mask = mask_of(of);
  const double scale = 1.0 / std::sqrt(static_cast<double>(of.dim));

  const Tensor found = attention(inputs[0], inputs[1], inputs[2], mask, scale);
  const Tensor expected = exact_attention(wide[0], wide[1], wide[2], mask, scale);
  const Tensor upstream = at::randn(found.sizes()).to(type);
  const auto gradients = torch::autograd::grad({found}, inputs, {upstream});
  const auto exact = torch::autograd::grad({expected}, wide, {upstream.to(at::kDouble)});
  fused = before;

  // bfloat16: the output is rounded once, and its rounded value enters the gradients.
  const double tolerance = type == at::kFloat ? 2e-6 : 1e-2;
  EXPECT_LE(relative_difference(found.detach(), expected.detach()), tolerance);
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_LE(relative_difference(gradients[i], exact[i]), tolerance) << "gradient of input " << i;
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FusedAttentionTest,
    testing::Combine(testing::Values(Case{1, 1, 1, 1, 1}, Case{2, 1, 1, 5, 3}, Case{2, 3, 3, 32, 32},
                                     Case{1, 4, 2, 33, 16}, Case{2, 6, 1, 70, 40}, Case{1, 2, 2, 256, 32},
                                     Case{1, 2, 1, 100, 80}, Case{1, 2, 2, 129, 256},
                                     Case{1, 2, 2, 100, 16, /*window=*/7}, Case{2, 4, 2, 150, 32, /*window=*/64},
                                     Case{3, 4, 2, 45, 8, /*window=*/0, /*padding=*/true},
                                     Case{4, 2, 1, 90, 24, /*window=*/20, /*padding=*/true}),
                     testing::Values(at::kFloat, at::kBFloat16)),
    [](const auto& info) {
      const Case& of = std::get<0>(info.param);
      return "batch" + std::to_string(of.batch) + "heads" + std::to_string(of.heads) + "of" +
             std::to_string(of.key_value_heads) + "seq" + std::to_string(of.seq) + "dim" + std::to_string(of.dim) +
             (of.window ? "window" + std::to_string(of.window) : "") + (of.padding ? "padding" : "") +
             at::toString(std::get<1>(info.param));
    });

}  // namespace
}  // namespace modular
