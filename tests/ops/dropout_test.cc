// Counter-based dropout: the counters determine the dropped elements in every form of the operation and for every slice
// of a value; the drop rate matches the probability; gradients pass where values did.
#include <ATen/ATen.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "runtime/model/attention.h"
#include "runtime/ops/fused.h"

namespace modular {
namespace {

DropoutRng to_dropout_rng(int64_t batch, double p, uint64_t key = 0x123456789abcdef0) {
  // Sample indices anywhere in a run, including beyond 32 bits.
  return {.samples = at::arange(batch, at::kLong) * 3 + (int64_t{1} << 33) + 5, .key = key, .p = p};
}

/// The word of one element from libtorch's Philox engine, which returns a counter's four words in order.
uint32_t philox_word(const DropoutRng& rng, int64_t sample, int64_t plane, int64_t row, int64_t column) {
  const auto block = static_cast<uint64_t>(column / 64 * 16 + column % 16);
  const auto low = block | static_cast<uint64_t>(row) << 32;
  const auto high = (static_cast<uint64_t>(sample) & 0xffffffff) | static_cast<uint64_t>(plane) << 32;
  at::Philox4_32 engine(rng.key, high, low);
  uint32_t word = 0;
  for (int64_t i = 0; i <= column / 16 % 4; ++i) word = engine();
  return word;
}

/// Computes the mask of kept elements of [batch, planes, rows, columns] one by one.
Tensor kept_one_by_one(const DropoutRng& rng, int64_t planes, int64_t rows, int64_t columns) {
  const int64_t batch = rng.samples.size(0);
  const Tensor kept = at::empty({batch, planes, rows, columns}, at::kBool);
  auto mask = kept.accessor<bool, 4>();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t p = 0; p < planes; ++p)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          mask[b][p][r][c] = philox_word(rng, rng.samples[b].item<int64_t>(), p, r, c) >= rng.p * 4294967296.0;
  return kept;
}

class WithFused {
 public:
  WithFused() : before_(fused) { install_fused_functions(); }
  ~WithFused() { fused = before_; }

 private:
  FusedFunctions before_;
};

class DropoutForms : public testing::TestWithParam<std::tuple<int64_t, at::ScalarType>> {};

TEST_P(DropoutForms, DropElementsByLibtorchsPhilox) {
  const auto [columns, type] = GetParam();
  const DropoutRng rng = to_dropout_rng(3, 0.3);
  const Tensor x = at::rand({3, 5, columns}).to(type).add_(1.0);  // nothing is 0 by itself
  const Tensor expected = kept_one_by_one(rng, 1, 5, columns).view(x.sizes());
  const Tensor scaled = (x.to(at::kDouble) / 0.7).where(expected, 0.0);
  const WithFused installed;
  for (const Tensor& found : {plain::dropout(x, rng), fused.dropout(x, rng)}) {
    EXPECT_TRUE(found.ne(0).equal(expected));
    EXPECT_TRUE(at::allclose(found.to(at::kDouble), scaled, type == at::kBFloat16 ? 8e-3 : 1e-6));
  }
}

TEST_P(DropoutForms, DropTheSameElementsInRowSlices) {
  const auto [columns, type] = GetParam();
  const Tensor x = at::rand({2, 6, columns}).to(type).add_(1.0);
  DropoutRng rng = to_dropout_rng(2, 0.4);
  const WithFused installed;
  const Tensor full = fused.dropout(x, rng);
  for (rng.first_row = 0; rng.first_row < 6; rng.first_row += 2) {
    const Tensor expected = full.narrow(1, rng.first_row, 2);
    Tensor part = x.narrow(1, rng.first_row, 2).detach().requires_grad_();
    const Tensor found = fused.dropout(part, rng);
    EXPECT_TRUE(found.equal(expected));
    EXPECT_TRUE(plain::dropout(part, rng).ne(0).equal(expected.ne(0)));
    found.sum().backward();
    EXPECT_TRUE(part.grad().ne(0).equal(expected.ne(0))) << "the gradient has the same mask";
  }
}

TEST_P(DropoutForms, DropTheSameElementsInColumnSlices) {
  const auto [columns, type] = GetParam();
  const Tensor x = at::rand({2, 3, 3 * columns}).to(type).add_(1.0);
  DropoutRng rng = to_dropout_rng(2, 0.4);
  const WithFused installed;
  const Tensor full = fused.dropout(x, rng);
  for (rng.part = 0; rng.part < 3; ++rng.part) {
    const Tensor part = x.narrow(-1, rng.part * columns, columns);
    EXPECT_TRUE(fused.dropout(part, rng).equal(full.narrow(-1, rng.part * columns, columns)));
    EXPECT_TRUE(plain::dropout(part, rng).ne(0).equal(full.narrow(-1, rng.part * columns, columns).ne(0)));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, DropoutForms,
                         testing::Combine(testing::Values(1, 7, 16, 40, 64, 65, 200),
                                          testing::Values(at::kFloat, at::kBFloat16, at::kDouble)),
                         [](const auto& info) {
                           return "columns" + std::to_string(std::get<0>(info.param)) +
                                  at::toString(std::get<1>(info.param));
                         });

TEST(Dropout, DropRateMatchesTheProbability) {
  const WithFused installed;
  const int64_t batch = 8, rows = 256, columns = 512;
  for (const double p : {0.001, 0.1, 0.5, 0.9}) {
    const Tensor kept = fused.dropout(at::ones({batch, rows, columns}), to_dropout_rng(batch, p)).ne(0).to(at::kDouble);
    // The rate over all elements, per sample, row and column, and of adjacent pairs along each dimension, which must be
    // independent.
    const auto within = [](const Tensor& rate, double expected, int64_t count) {
      const double deviation = std::sqrt(expected * (1.0 - expected) / static_cast<double>(count));
      return (rate - expected).abs().max().item<double>() < 5.5 * deviation;
    };
    EXPECT_TRUE(within(kept.mean(), 1 - p, kept.numel()));
    EXPECT_TRUE(within(kept.flatten(1).mean(1), 1 - p, rows * columns));
    EXPECT_TRUE(within(kept.transpose(0, 1).flatten(1).mean(1), 1 - p, batch * columns));
    EXPECT_TRUE(within(kept.flatten(0, 1).mean(0), 1 - p, batch * rows));
    for (int64_t dim = 0; dim < 3; ++dim) {
      const int64_t size = kept.size(dim);
      const Tensor both = kept.narrow(dim, 0, size - 1) * kept.narrow(dim, 1, size - 1);
      EXPECT_TRUE(within(both.mean(), (1 - p) * (1 - p), both.numel() / 4)) << "adjacent pairs along " << dim;
    }
  }
}

TEST(Dropout, GradientsPassWhereValuesDid) {
  const WithFused installed;
  const DropoutRng rng = to_dropout_rng(4, 0.3);
  const Tensor x = at::randn({4, 6, 70}).requires_grad_(), upstream = at::randn({4, 6, 70});
  const Tensor y = fused.dropout(x, rng);
  const Tensor found = torch::autograd::grad({y}, {x}, {upstream})[0];
  const Tensor kept = kept_one_by_one(rng, 1, 6, 70).view(x.sizes());
  EXPECT_TRUE(at::allclose(found, (upstream / 0.7f).where(kept, 0.0)));
}

TEST(Dropout, RejectsOtherBatchSizesAndInvalidProbabilities) {
  EXPECT_THROW(plain::dropout(at::ones({3, 4}), to_dropout_rng(2, 0.5)), c10::Error);
  EXPECT_THROW(nn::Dropout(1.0), c10::Error);
  EXPECT_THROW(nn::Dropout(-0.1), c10::Error);
}

TEST(Dropout, UsesLibtorchWithoutARuntime) {
  nn::Dropout layer(0.25);
  const Tensor x = at::ones({64, 1024});
  EXPECT_NEAR(layer(x).ne(0).to(at::kDouble).mean().item<double>(), 0.75, 0.01);
  layer->eval();
  EXPECT_TRUE(layer(x).equal(x));
}

// ---- Attention ----

struct AttentionCase {
  int64_t batch, heads, key_value_heads, seq, dim;
  enum class Mask { causal, window, padding, documents } mask;
};

std::string name_for(const AttentionCase& of) {
  return "heads" + std::to_string(of.heads) + "of" + std::to_string(of.key_value_heads) + "seq" +
         std::to_string(of.seq);
}

void PrintTo(const AttentionCase& of, std::ostream* out) { *out << name_for(of); }

AttentionMask make_mask(const AttentionCase& shape) {
  if (shape.mask == AttentionCase::Mask::causal) return causal_mask(Tensor(), /*window=*/0);
  if (shape.mask == AttentionCase::Mask::window) return causal_mask(Tensor(), /*window=*/5);
  AttentionMask mask = whole_mask();
  if (shape.mask == AttentionCase::Mask::documents) {
    mask.documents =
        at::arange(shape.seq).div(7, "floor").remainder(3).unsqueeze(0);  // each document in several pieces
    return mask;
  }
  mask.padding = at::ones({shape.batch, shape.seq}, at::kBool);
  for (int64_t i = 0; i < shape.batch; ++i) mask.padding[i].slice(-1, shape.seq - i * 3).zero_();
  return mask;
}

class DroppingAttention : public testing::TestWithParam<std::tuple<AttentionCase, at::ScalarType>> {};

TEST_P(DroppingAttention, AgreesWithTheFormula) {
  const auto& [shape, type] = GetParam();
  const DropoutRng rng = to_dropout_rng(shape.batch, 0.25);
  const double scale = 1.0 / std::sqrt(static_cast<double>(shape.dim));
  const AttentionMask mask = make_mask(shape);
  std::vector<Tensor> inputs, wide;
  for (const int64_t heads : {shape.heads, shape.key_value_heads, shape.key_value_heads}) {
    const Tensor memory = at::randn({shape.batch, shape.seq, heads, shape.dim}).to(type);
    inputs.push_back(memory.transpose(1, 2).requires_grad_());
    wide.push_back(memory.transpose(1, 2).to(at::kDouble).requires_grad_());
  }
  const WithFused installed;
  const Tensor found = fused.attention(inputs[0], inputs[1], inputs[2], mask, scale, &rng);

  const int64_t group = shape.heads / shape.key_value_heads;
  const Tensor visible = visible_keys(mask, shape.seq, at::kCPU);
  const Tensor scores = at::matmul(wide[0], wide[1].repeat_interleave(group, 1).transpose(2, 3)) * scale;
  const Tensor weights = at::softmax(scores.masked_fill(~visible, -1e30), -1);
  const Tensor kept = kept_one_by_one(rng, shape.heads, shape.seq, shape.seq);
  const Tensor expected =
      at::matmul((weights / 0.75).where(kept, 0.0), wide[2].repeat_interleave(group, 1)).transpose(1, 2).flatten(2);

  const Tensor upstream = at::randn(found.sizes()).to(type);
  const auto gradients = torch::autograd::grad({found}, inputs, {upstream});
  const auto exact = torch::autograd::grad({expected}, wide, {upstream.to(at::kDouble)});
  const auto difference = [](const Tensor& a, const Tensor& b) {
    return ((a.to(at::kDouble) - b).norm() / (b.norm() + 1e-30)).item<double>();
  };
  const double tolerance = type == at::kBFloat16 ? 1.5e-2 : 3e-6;
  EXPECT_LE(difference(found.detach(), expected.detach()), tolerance);
  for (size_t i = 0; i < 3; ++i) EXPECT_LE(difference(gradients[i], exact[i]), tolerance) << "gradient of input " << i;
}

using Mask = AttentionCase::Mask;
INSTANTIATE_TEST_SUITE_P(Shapes, DroppingAttention,
                         testing::Combine(testing::Values(AttentionCase{1, 1, 1, 3, 4, Mask::causal},
                                                          AttentionCase{2, 4, 2, 33, 16, Mask::causal},
                                                          AttentionCase{2, 2, 1, 100, 24, Mask::window},
                                                          AttentionCase{3, 2, 2, 64, 32, Mask::padding},
                                                          AttentionCase{2, 3, 3, 130, 8, Mask::padding},
                                                          AttentionCase{2, 4, 1, 75, 8, Mask::documents}),
                                          testing::Values(at::kFloat, at::kBFloat16, at::kDouble)),
                         [](const auto& info) {
                           return name_for(std::get<0>(info.param)) + at::toString(std::get<1>(info.param));
                         });

/// Returns the same RNG state for every call.
class FixedRng final : public dropout::Draws {
 public:
  explicit FixedRng(const DropoutRng& rng) : rng_(rng) { bound.dropout = this; }
  ~FixedRng() override { bound.dropout = nullptr; }
  DropoutRng draw(const nn::DropoutImpl&) override { return rng_; }

 private:
  DropoutRng rng_;
};

// As a decoder sees an encoder's states: fewer queries than keys, with queries and full rows that see no key.
TEST(DroppingAttention, MatchesThePlainFormForBoolMasks) {
  const DropoutRng rng = to_dropout_rng(3, 0.3);
  const FixedRng bound_rng(rng);
  const Tensor query = at::randn({3, 4, 11, 16}), key = at::randn({3, 2, 37, 16}), value = at::randn({3, 2, 37, 16});
  Tensor padding = at::ones({3, 1, 1, 37}, at::kBool);
  padding[1].slice(-1, 20).zero_();
  padding[2].zero_();
  const WithFused installed;
  for (const Tensor& mask : {padding, padding.expand({3, 1, 11, 37}).logical_and(at::rand({3, 1, 11, 37}).gt(0.4))}) {
    const Tensor found = attention(query, key, value, mask, 0.25, nn::Dropout(0.3));
    const Tensor expected = plain::attention_dropping(query, key, value, mask, 0.25, std::nullopt, rng);
    EXPECT_TRUE(at::allclose(found, expected, 1e-5, 1e-6));
  }
}

TEST(DroppingAttention, DropsTheSameElementsInHeadSlices) {
  const WithFused installed;
  DropoutRng rng = to_dropout_rng(2, 0.3);
  const Tensor query = at::randn({2, 6, 40, 16}), key = at::randn({2, 6, 40, 16}), value = at::randn({2, 6, 40, 16});
  const AttentionMask mask = causal_mask(Tensor(), /*window=*/0);
  const Tensor full = fused.attention(query, key, value, mask, 0.25, &rng);
  for (rng.part = 0; rng.part < 3; ++rng.part) {
    const auto heads = [&](const Tensor& all) { return all.narrow(1, 2 * rng.part, 2); };
    const Tensor part = fused.attention(heads(query), heads(key), heads(value), mask, 0.25, &rng);
    EXPECT_TRUE(part.equal(full.narrow(-1, 32 * rng.part, 32)));
    const Tensor plain_part =
        plain::attention_dropping(heads(query), heads(key), heads(value), mask, 0.25, std::nullopt, rng);
    EXPECT_TRUE(at::allclose(part, plain_part, 1e-4, 1e-5));
  }
}

// As with context parallelism: the queries of a rank, and the keys that they may see.
TEST(DroppingAttention, DropsTheSameElementsInRunsOfQueries) {
  const WithFused installed;
  DropoutRng rng = to_dropout_rng(2, 0.3);
  const Tensor query = at::randn({2, 4, 140, 16}), key = at::randn({2, 2, 140, 16}), value = at::randn({2, 2, 140, 16});
  const AttentionMask mask = causal_mask(Tensor(), /*window=*/0);
  const Tensor full = fused.attention(query, key, value, mask, 0.25, &rng);
  const Tensor biases = plain::mask_of_numbers(plain::visible_keys(mask, 140, 140, at::kCPU), query.options());
  for (const auto& [first, count] : {std::pair(70, 70), {40, 33}, {0, 50}, {100, 3}}) {
    rng.first_row = first;
    const auto seen = [&, last = first + count](const Tensor& all) { return all.narrow(2, 0, last); };
    const Tensor own = query.narrow(2, first, count), expected = full.narrow(1, first, count);
    EXPECT_TRUE(at::allclose(fused.attention(own, seen(key), seen(value), mask, 0.25, &rng), expected, 1e-4, 1e-5));
    const Tensor biased = fused.attention_with_biases(
        own, seen(key), seen(value), biases.narrow(2, first, count).narrow(3, 0, first + count), 0.25, &rng);
    ASSERT_TRUE(biased.defined());
    EXPECT_TRUE(at::allclose(biased, expected, 1e-4, 1e-5));
  }
}

// Positions of padding before a text are such queries: the last one predicts the text's first token.
TEST(DroppingAttention, GivesZerosToQueriesThatSeeNoKey) {
  const DropoutRng rng = to_dropout_rng(2, 0.3);
  const nn::Dropout dropout(0.3);
  const Tensor query = at::randn({2, 4, 140, 16}), key = at::randn({2, 2, 140, 16}), value = at::randn({2, 2, 140, 16});
  Tensor padding = at::ones({2, 140}, at::kBool);
  padding.narrow(1, 0, 9).zero_();
  const AttentionMask mask = causal_mask(padding, /*window=*/0);
  const Tensor visible = plain::visible_keys(mask, 140, 140, at::kCPU);
  const Tensor expected = plain::attention_dropping(query, key, value, mask, 0.25, std::nullopt, rng);
  EXPECT_TRUE(expected.narrow(1, 0, 9).eq(0).all().item<bool>());
  EXPECT_TRUE(expected.narrow(1, 9, 131).ne(0).any(-1).all().item<bool>());
  EXPECT_TRUE(attention(query, key, value, mask, 0.25, dropout).narrow(1, 0, 9).eq(0).all().item<bool>());
  EXPECT_TRUE(attention(query, key, value, visible, 0.25, dropout).narrow(1, 0, 9).eq(0).all().item<bool>());
  EXPECT_TRUE(plain::attention_dropping(query, key, value, visible, 0.25, std::nullopt, rng).equal(expected));
  const WithFused installed;
  for (const bool is_tensor : {false, true}) {
    const Tensor trained = query.clone().set_requires_grad(true);
    const Tensor mixed = is_tensor ? detail::attend_dropping(trained, key, value, visible, 0.25, std::nullopt, rng)
                                   : detail::attend_dropping(trained, key, value, mask, 0.25, std::nullopt, rng);
    EXPECT_TRUE(at::allclose(mixed, expected, 1e-4, 1e-5));
    mixed.square().sum().backward();
    EXPECT_TRUE(trained.grad().isfinite().all().item<bool>());
    EXPECT_TRUE(trained.grad().narrow(2, 0, 9).eq(0).all().item<bool>());
  }
}

}  // namespace
}  // namespace modular
