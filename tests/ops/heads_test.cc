// Per-head numbers: attention sinks against their formula, ALiBi against the paper's.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <vector>

#include "runtime/model/attention.h"

namespace modular {
namespace {

void expect_close(const Tensor& found, const Tensor& expected, const char* what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  EXPECT_LE((found - expected).norm().item<double>(), 1e-12 * (expected.norm().item<double>() + 1e-30)) << what;
}

Batch to_batch(int64_t rows, int64_t seq) {
  Batch batch;
  batch.input_ids = at::zeros({rows, seq}, at::kLong);
  return batch;
}

TEST(AttentionWithSinks, IncludesTheSinkInTheSoftmax) {
  at::manual_seed(1);
  const std::vector<Tensor> inputs = {
      at::randn({2, 6, 5, 4}, at::kDouble).requires_grad_(), at::randn({2, 3, 5, 4}, at::kDouble).requires_grad_(),
      at::randn({2, 3, 5, 4}, at::kDouble).requires_grad_(), at::randn({6}, at::kDouble).requires_grad_()};
  Tensor padding = at::ones({2, 5}, at::kLong);
  padding[0].slice(0, 3).zero_();
  for (const AttentionMask& mask :
       {causal_mask(Tensor(), /*window=*/0), causal_mask(padding, /*window=*/0), causal_mask(Tensor(), /*window=*/2)}) {
    const Tensor found = attention_with_sinks(inputs[0], inputs[1], inputs[2], mask, 0.5, inputs[3]);

    const Tensor visible = visible_keys(mask, 5, at::kCPU);
    const Tensor keys = inputs[1].repeat_interleave(2, 1), values = inputs[2].repeat_interleave(2, 1);
    const Tensor weights = (inputs[0].matmul(keys.transpose(2, 3)) * 0.5).exp() * visible;
    const Tensor total = weights.sum(-1, /*keepdim=*/true) + inputs[3].exp().view({1, 6, 1, 1});
    const Tensor expected = (weights / total).matmul(values).transpose(1, 2).flatten(2);
    expect_close(found, expected, "result");

    const Tensor upstream = at::randn_like(found);
    const auto gradients = torch::autograd::grad({found}, inputs, {upstream});
    const auto exact = torch::autograd::grad({expected}, inputs, {upstream});
    for (size_t i = 0; i < inputs.size(); ++i) expect_close(gradients[i], exact[i], "gradient");
  }
}

TEST(AttentionWithBiases, WeightsAllKeysEquallyIfAQuerySeesNone) {
  at::manual_seed(2);
  std::vector<Tensor> inputs;
  for (const int64_t heads : {4, 2, 2}) inputs.push_back(at::randn({2, heads, 5, 4}).requires_grad_());
  Batch batch = to_batch(2, 5);
  batch.attention_mask = at::ones({2, 5}, at::kLong);
  batch.attention_mask[0].slice(0, 0, 3).zero_();
  const Tensor biases = alibi_mask(batch, alibi_slopes(4, at::kCPU), at::kFloat);
  const Tensor found = attention_with_biases(inputs[0], inputs[1], inputs[2], biases, 0.5)[0].slice(0, 0, 3);
  const Tensor mean = inputs[2].repeat_interleave(2, 1).mean(2).flatten(1)[0].expand({3, -1});
  EXPECT_TRUE(at::allclose(found, mean, 1e-6, 1e-6));
  const auto gradient = torch::autograd::grad({found.sum()}, {inputs[2]})[0];
  const auto exact = torch::autograd::grad({mean.sum()}, {inputs[2]})[0];
  EXPECT_TRUE(at::allclose(gradient, exact, 1e-6, 1e-6));
}

TEST(Alibi, HasTheSlopesOfThePaper) {
  const auto halvings = [](const std::vector<double>& exponents) {
    return at::exp2(-at::tensor(exponents, at::kDouble)).to(at::kFloat);
  };
  EXPECT_TRUE(at::allclose(alibi_slopes(8, at::kCPU), halvings({1, 2, 3, 4, 5, 6, 7, 8})));
  EXPECT_TRUE(at::allclose(alibi_slopes(12, at::kCPU), halvings({1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5})));
  EXPECT_TRUE(at::allclose(alibi_slopes(1, at::kCPU), halvings({8})));
}

TEST(Alibi, LowersScoresByTheDistanceWithoutPadding) {
  at::manual_seed(3);
  const int64_t seq = 9;
  const Tensor slopes = alibi_slopes(4, at::kCPU).to(at::kDouble), scores = at::randn({2, 4, seq, seq}, at::kDouble);
  const Tensor position = at::arange(seq, at::kDouble);
  const Tensor distance = position.unsqueeze(1) - position.unsqueeze(0);
  const Tensor seen = at::ones({seq, seq}, at::kBool).tril();
  const Tensor expected =
      (scores - slopes.view({4, 1, 1}) * distance).masked_fill(~seen, -std::numeric_limits<double>::infinity());
  const Batch unpadded = to_batch(2, seq);
  expect_close((scores + alibi_mask(unpadded, slopes, at::kDouble)).softmax(-1), expected.softmax(-1), "full rows");

  // Padding in the middle does not count: distances are as if it did not exist.
  Batch padded = to_batch(2, seq + 2);
  padded.attention_mask = at::ones({2, seq + 2}, at::kLong);
  padded.attention_mask.slice(1, 4, 6).zero_();
  const Tensor kept = at::cat({at::arange(4), at::arange(6, seq + 2)});
  const Tensor mask = alibi_mask(padded, slopes, at::kDouble).index_select(2, kept).index_select(3, kept);
  expect_close((scores + mask).softmax(-1), expected.softmax(-1), "padded rows");
}

}  // namespace
}  // namespace modular
