// Fused attention against the formula in float64: values and gradients, with grouped heads and every kind of mask, over
// sizes that fill no block; and the computation that a mask saves.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/model/attention.h"
#include "runtime/ops/fused.h"
#include "tests/support/counting_allocator.h"

namespace modular {
namespace {

struct Case {
  int64_t batch, heads, key_value_heads, seq, dim;
  int64_t window = 0;
  bool padding = false;
  enum class Documents { none, in_order, mixed } documents = Documents::none;
  bool causal = true;  // else a window is the distance a query sees in both directions
  int64_t before = 0;  // keys before the first query
  int64_t keys() const { return before + seq; }
};

std::string name_for(const Case& of) {
  return "batch" + std::to_string(of.batch) + "heads" + std::to_string(of.heads) + "of" +
         std::to_string(of.key_value_heads) + "seq" + std::to_string(of.seq) + "dim" + std::to_string(of.dim) +
         (of.window ? "window" + std::to_string(of.window) : "") + (of.padding ? "padding" : "") +
         (of.documents == Case::Documents::none ? "" : "documents") + (of.causal ? "" : "bothways") +
         (of.before ? "after" + std::to_string(of.before) : "");
}

void PrintTo(const Case& of, std::ostream* out) { *out << name_for(of); }

class WithFused {
 public:
  WithFused() { install_fused_functions(); }
  ~WithFused() { fused = before_; }

 private:
  FusedFunctions before_ = fused;
};

AttentionMask make_mask(const Case& shape) {
  Tensor padding;
  if (shape.padding) {
    const int64_t keys = shape.keys();
    padding = at::ones({shape.batch, keys}, at::kLong);
    for (int64_t i = 0; i < shape.batch; ++i) {
      padding[i].slice(0, keys - (i * 7) % keys).zero_();   // at the end, of different lengths
      if (i % 2) padding[i].slice(0, 0, keys / 3).zero_();  // and before the first token: those queries see no key
    }
  }
  AttentionMask mask = causal_mask(padding, shape.window);
  mask.causal = shape.causal;
  const Tensor position = at::arange(shape.batch * shape.keys()).view({shape.batch, shape.keys()});
  if (shape.documents == Case::Documents::in_order) mask.documents = position.div(37, "floor");
  if (shape.documents == Case::Documents::mixed) mask.documents = position.div(5, "floor").remainder(3);
  return mask;
}

// softmax(scale * query key^T) value over the visible keys; 0 for a query that sees no key.
Tensor exact_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& visible,
                       double scale) {
  const int64_t group = query.size(1) / key.size(1);
  const Tensor scores = at::matmul(query, key.repeat_interleave(group, 1).transpose(-2, -1)) * scale;
  const Tensor weights = at::softmax(scores.masked_fill(~visible, -1e30), -1) * visible;
  return at::matmul(weights, value.repeat_interleave(group, 1)).transpose(1, 2).flatten(2);
}

double relative_difference(const Tensor& found, const Tensor& expected) {
  EXPECT_EQ(found.sizes(), expected.sizes());
  const Tensor difference = found.to(at::kDouble) - expected;
  return difference.norm().item<double>() / (expected.norm().item<double>() + 1e-30);
}

/// Compares `found`, computed from `inputs`, and the gradients of `inputs` with `expected`, computed in float64.
void expect_agreement(const Tensor& found, const std::vector<Tensor>& inputs, const Tensor& expected,
                      const std::vector<Tensor>& wide, const Tensor& upstream, double tolerance) {
  EXPECT_LE(relative_difference(found.detach(), expected.detach()), tolerance);
  const auto gradients = torch::autograd::grad({found}, inputs, {upstream});
  const auto exact = torch::autograd::grad({expected}, wide, {upstream.to(at::kDouble)});
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_LE(relative_difference(gradients[i], exact[i]), tolerance) << "gradient of input " << i;
}

class FusedAttentionTest : public ::testing::TestWithParam<std::tuple<Case, at::ScalarType>> {};

TEST_P(FusedAttentionTest, AgreesWithTheFormula) {
  const auto& [shape, type] = GetParam();
  const WithFused installed;
  at::manual_seed(3);
  // In the memory layout of projections: [batch, seq, heads, dim].
  std::vector<Tensor> inputs, wide;
  for (const auto& [heads, positions] : {std::pair(shape.heads, shape.seq),
                                         {shape.key_value_heads, shape.keys()},
                                         {shape.key_value_heads, shape.keys()}}) {
    const Tensor memory = at::randn({shape.batch, positions, heads, shape.dim}).to(type);
    inputs.push_back(memory.transpose(1, 2).requires_grad_());
    wide.push_back(memory.transpose(1, 2).to(at::kDouble).requires_grad_());
  }
  const AttentionMask mask = make_mask(shape);
  const double scale = 1.0 / std::sqrt(static_cast<double>(shape.dim));

  const Tensor found = attention(inputs[0], inputs[1], inputs[2], mask, scale);
  const Tensor expected =
      exact_attention(wide[0], wide[1], wide[2], plain::visible_keys(mask, shape.seq, shape.keys(), at::kCPU), scale);
  const Tensor upstream = at::randn(found.sizes()).to(type);
  // bfloat16: the output is rounded once, and its rounded value enters the gradients.
  expect_agreement(found, inputs, expected, wide, upstream, type == at::kFloat ? 2e-6 : 1e-2);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FusedAttentionTest,
    ::testing::Combine(::testing::Values(Case{1, 1, 1, 1, 1}, Case{2, 1, 1, 5, 3}, Case{2, 3, 3, 32, 32},
                                         Case{1, 4, 2, 33, 16}, Case{2, 6, 1, 70, 40}, Case{1, 2, 2, 256, 32},
                                         Case{1, 2, 1, 100, 80}, Case{1, 2, 2, 129, 256},
                                         Case{1, 2, 2, 100, 16, /*window=*/7}, Case{2, 4, 2, 150, 32, /*window=*/64},
                                         Case{3, 4, 2, 45, 8, /*window=*/0, /*padding=*/true},
                                         Case{4, 2, 1, 90, 24, /*window=*/20, /*padding=*/true},
                                         Case{2, 4, 2, 100, 16, 0, false, Case::Documents::in_order},
                                         Case{2, 2, 1, 130, 24, /*window=*/30, true, Case::Documents::in_order},
                                         Case{2, 2, 2, 77, 8, 0, true, Case::Documents::mixed},
                                         Case{2, 2, 1, 100, 40, 0, false, Case::Documents::none, /*causal=*/false},
                                         Case{3, 4, 2, 90, 16, 0, true, Case::Documents::none, /*causal=*/false},
                                         Case{1, 2, 1, 170, 16, /*window=*/9, false, Case::Documents::none, false},
                                         Case{2, 2, 2, 101, 32, /*window=*/50, true, Case::Documents::in_order, false},
                                         Case{2, 4, 1, 64, 8, /*window=*/40, true, Case::Documents::mixed, false},
                                         Case{2, 4, 2, 32, 16, 0, false, Case::Documents::none, true, /*before=*/1},
                                         Case{1, 6, 2, 100, 24, 0, false, Case::Documents::none, true, /*before=*/91},
                                         Case{2, 2, 1, 70, 40, /*window=*/50, true, Case::Documents::none, true, 45},
                                         Case{2, 4, 2, 65, 8, 0, true, Case::Documents::in_order, true, 130},
                                         Case{3, 2, 2, 77, 16, 0, true, Case::Documents::mixed, true, 40},
                                         Case{2, 2, 1, 40, 32, 0, true, Case::Documents::none, /*causal=*/false, 66},
                                         Case{2, 2, 1, 40, 8, /*window=*/30, true, Case::Documents::mixed, false, 67},
                                         // More keys than fit in a core's cache.
                                         Case{1, 2, 1, 1000, 256}, Case{1, 1, 1, 970, 250, /*window=*/600},
                                         Case{2, 1, 1, 950, 256, 0, true, Case::Documents::none, /*causal=*/false},
                                         Case{1, 2, 2, 1100, 200, 0, true, Case::Documents::in_order},
                                         Case{2, 1, 1, 70, 256, 0, true, Case::Documents::mixed, true, 1000}),
                       ::testing::Values(at::kFloat, at::kBFloat16)),
    [](const auto& info) { return name_for(std::get<0>(info.param)) + at::toString(std::get<1>(info.param)); });

// ---- Biases ----

struct BiasCase {
  int64_t batch, heads, key_value_heads, seq, keys, dim;
  std::vector<int64_t> biases;  // sizes, which may be 1
  enum class Hidden { none, some, all_of_a_row } hidden = Hidden::none;
  double drop = 0.0;
};

std::string name_for(const BiasCase& of) { return "seq" + std::to_string(of.seq) + "keys" + std::to_string(of.keys); }

void PrintTo(const BiasCase& of, std::ostream* out) { *out << name_for(of); }

/// Random biases of a case's sizes; the lowest value hides every third key, or all keys from every third query.
Tensor make_biases(const BiasCase& shape, at::ScalarType type) {
  const Tensor biases = at::randn(shape.biases);
  const Tensor position = at::arange(shape.biases[3]);
  if (shape.hidden == BiasCase::Hidden::some)
    return biases.masked_fill(position.remainder(3).eq(1), plain::lowest(type));
  if (shape.hidden == BiasCase::Hidden::none) return biases;
  return biases.masked_fill(at::arange(shape.biases[2]).remainder(3).eq(1).view({-1, 1}), plain::lowest(type));
}

class FusedBiasesTest : public ::testing::TestWithParam<std::tuple<BiasCase, at::ScalarType>> {};

// Against the formula in float64; the dropout mask comes from the plain form (dropout_test.cc).
TEST_P(FusedBiasesTest, AgreeWithTheFormula) {
  const auto& [shape, type] = GetParam();
  const WithFused installed;
  at::manual_seed(7);
  std::vector<Tensor> inputs, wide;
  const auto input = [&](const Tensor& x) {
    inputs.push_back(x.to(type).requires_grad_());
    wide.push_back(x.to(type).to(at::kDouble).requires_grad_());
  };
  input(at::randn({shape.batch, shape.seq, shape.heads, shape.dim}).transpose(1, 2));
  for (int i = 0; i < 2; ++i)
    input(at::randn({shape.batch, shape.keys, shape.key_value_heads, shape.dim}).transpose(1, 2));
  input(make_biases(shape, type));
  const DropoutRng rng = {.samples = at::arange(shape.batch, at::kLong) + 3, .key = 99, .p = shape.drop, .part = 1};
  const double scale = 0.4;

  const Tensor found =
      fused.attention_with_biases(inputs[0], inputs[1], inputs[2], inputs[3], scale, shape.drop > 0 ? &rng : nullptr);
  ASSERT_TRUE(found.defined());
  const int64_t group = shape.heads / shape.key_value_heads;
  const Tensor scores = at::matmul(wide[0], wide[1].repeat_interleave(group, 1).transpose(-2, -1)) * scale;
  Tensor weights = at::softmax(scores + wide[3], -1);
  if (shape.drop > 0)
    weights = weights * plain::kept(rng, shape.heads, shape.seq, shape.keys, shape.heads, 0) / (1.0 - shape.drop);
  const Tensor expected = at::matmul(weights, wide[2].repeat_interleave(group, 1)).transpose(1, 2).flatten(2);
  const Tensor upstream = at::randn(found.sizes()).to(type);
  expect_agreement(found, inputs, expected, wide, upstream, type == at::kFloat ? 3e-6 : 1e-2);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FusedBiasesTest,
    ::testing::Combine(
        ::testing::Values(BiasCase{1, 1, 1, 1, 1, 1, {1, 1, 1, 1}}, BiasCase{3, 2, 2, 40, 40, 16, {1, 2, 40, 40}},
                          BiasCase{3, 4, 2, 33, 33, 8, {3, 4, 33, 33}}, BiasCase{2, 4, 2, 50, 50, 24, {2, 1, 50, 50}},
                          BiasCase{2, 3, 1, 70, 70, 16, {1, 1, 70, 70}}, BiasCase{3, 2, 2, 20, 75, 16, {3, 1, 1, 75}},
                          BiasCase{2, 2, 1, 90, 31, 8, {1, 2, 90, 31}},
                          BiasCase{3, 2, 2, 40, 40, 16, {1, 2, 40, 40}, BiasCase::Hidden::some},
                          BiasCase{2, 2, 2, 45, 45, 8, {1, 2, 45, 45}, BiasCase::Hidden::all_of_a_row},
                          BiasCase{3, 2, 2, 66, 66, 16, {1, 2, 66, 66}, BiasCase::Hidden::none, 0.3},
                          BiasCase{2, 4, 2, 35, 130, 16, {2, 4, 35, 130}, BiasCase::Hidden::some, 0.2},
                          // More keys than fit in a core's cache.
                          BiasCase{1, 2, 1, 40, 1000, 256, {1, 2, 40, 1000}, BiasCase::Hidden::some, 0.2},
                          BiasCase{1, 1, 1, 90, 1700, 128, {1, 1, 90, 1700}, BiasCase::Hidden::all_of_a_row}),
        ::testing::Values(at::kFloat, at::kBFloat16)),
    [](const auto& info) {
      return "case" + std::to_string(info.index) + name_for(std::get<0>(info.param)) +
             at::toString(std::get<1>(info.param));
    });

TEST(FusedBiases, SumGradientsIndependentlyOfThreads) {
  const WithFused installed;
  const int threads = at::get_num_threads();
  at::manual_seed(11);
  const Tensor query = at::randn({5, 3, 40, 8}).requires_grad_(), biases = at::randn({1, 3, 40, 40}).requires_grad_();
  std::vector<Tensor> found;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    const Tensor mixed = fused.attention_with_biases(query, query, query, biases, 0.3, nullptr);
    found.push_back(torch::autograd::grad({mixed.square().sum()}, {biases})[0]);
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(found[0].equal(found[1]) && found[0].equal(found[2]));
}

TEST(FusedBiases, OfMinusInfinityHideAllKeys) {
  const WithFused installed;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    std::vector<Tensor> inputs;
    for (int i = 0; i < 3; ++i) inputs.push_back(at::randn({1, 2, 40, 16}).to(type).requires_grad_());
    Tensor biases = at::zeros({1, 2, 40, 40});
    biases.select(2, 3).fill_(-INFINITY);
    const Tensor mixed = fused.attention_with_biases(inputs[0], inputs[1], inputs[2], biases, 0.25, nullptr);
    EXPECT_TRUE(mixed.select(1, 3).eq(0).all().item<bool>()) << type;
    const auto gradients = torch::autograd::grad({mixed}, inputs, {at::ones_like(mixed)});
    for (const Tensor& gradient : gradients) EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << type;
    EXPECT_TRUE(gradients[0].select(2, 3).eq(0).all().item<bool>()) << type;
  }
}

// ---- The plain form ----

/// Records the arguments of libtorch's attention during its lifetime.
class AttentionCalls {
 public:
  AttentionCalls()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
              if (std::string_view(call.name()) == "aten::scaled_dot_product_attention")
                has_mask = call.inputs()[3].isTensor(), is_causal = call.inputs()[5].toBool();
              return nullptr;
            }).needsInputs(true))) {}
  ~AttentionCalls() { at::removeCallback(handle_); }
  AttentionCalls(const AttentionCalls&) = delete;
  AttentionCalls& operator=(const AttentionCalls&) = delete;

  static inline bool has_mask = false, is_causal = false;

 private:
  at::CallbackHandle handle_;
};

TEST(PlainAttention, MatchesATensorMask) {
  at::manual_seed(5);
  for (const int64_t keys : {6, 9}) {  // 3 more than the queries, as with a cache, or equally many
    const int64_t seq = keys == 9 ? 9 : 3;
    const Tensor query = at::randn({2, 4, seq, 8}, at::kDouble), key = at::randn({2, 2, keys, 8}, at::kDouble);
    const Tensor value = at::randn({2, 2, keys, 8}, at::kDouble);
    for (const bool causal : {false, true})
      for (const std::optional<int64_t> reach : {std::optional<int64_t>(), {2}, {20}})
        for (const Tensor& padding : {Tensor(), at::arange(keys).lt(keys - 1).expand({2, keys})})
          for (const Tensor& documents : {Tensor(), at::arange(keys).ge(4).to(at::kLong).unsqueeze(0)}) {
            const AttentionMask mask = {causal, reach, padding, documents};
            const Tensor visible = plain::visible_keys(mask, seq, keys, at::kCPU);
            EXPECT_TRUE(at::allclose(plain::attention(query, key, value, mask, 0.3),
                                     plain::attention(query, key, value, visible, 0.3)));
            EXPECT_TRUE(at::allclose(plain::capped_attention(query, key, value, mask, 0.3, 2.0),
                                     plain::capped_attention(query, key, value, visible, 0.3, 2.0)));
            const Tensor weights = plain::attention_weights(query, key, mask, 0.3, std::nullopt);
            EXPECT_EQ(weights.gt(0).logical_and(visible.logical_not()).sum().item<int64_t>(), 0);
          }
  }
}

TEST(PlainAttention, BuildsATensorMaskOnlyIfNeeded) {
  const Tensor query = at::randn({1, 2, 5, 8}), longer = at::randn({1, 2, 7, 8});
  const AttentionCalls calls;
  const auto call = [&](const Tensor& key, const AttentionMask& mask) {
    plain::attention(query, key, key, mask, 0.3);
    return std::pair(AttentionCalls::has_mask, AttentionCalls::is_causal);
  };
  const std::pair no_mask(false, false), causal(false, true), a_mask(true, false);
  EXPECT_EQ(call(query, whole_mask()), no_mask);
  EXPECT_EQ(call(query, causal_mask(Tensor(), /*window=*/0)), causal);
  EXPECT_EQ(call(query, causal_mask(Tensor(), /*window=*/5)), causal) << "a window that hides nothing";
  EXPECT_EQ(call(query, causal_mask(Tensor(), /*window=*/4)), a_mask);
  EXPECT_EQ(call(query, causal_mask(at::ones({1, 5}), /*window=*/0)), a_mask);
  EXPECT_EQ(call(longer, causal_mask(Tensor(), /*window=*/0)), a_mask)
      << "libtorch aligns the causal mask with the first key";
  EXPECT_EQ(call(longer, whole_mask()), no_mask);
}

// ---- Computation that a mask saves ----

/// Positions whose results are finite when the keys and values at [first, last) are NaN: the query's result, and the
/// gradients of query, key and value. Even with weight 0, such keys make everything computed from them NaN.
struct FinitePositions {
  Tensor in_result, in_gradients;  // [seq]

  FinitePositions(const AttentionMask& mask, int64_t seq, int64_t first, int64_t last, at::ScalarType type) {
    std::vector<Tensor> inputs;
    for (int i = 0; i < 3; ++i) inputs.push_back(at::randn({1, 2, seq, 16}).to(type));
    for (const size_t i : {1, 2}) inputs[i].slice(2, first, last).fill_(std::nan(""));
    for (Tensor& input : inputs) input.requires_grad_();
    const Tensor mixed = attention(inputs[0], inputs[1], inputs[2], mask, 0.25);
    in_result = mixed[0].isfinite().all(-1);
    const auto gradients = torch::autograd::grad({mixed}, inputs, {at::ones_like(mixed)});
    in_gradients = at::cat(gradients, -1)[0].isfinite().all(-1).all(0);
  }
};

/// [seq], true except at [first, last).
Tensor all_except(int64_t first, int64_t last, int64_t seq) {
  Tensor all = at::ones({seq}, at::kBool);
  all.slice(0, first, last).zero_();
  return all;
}

TEST(FusedAttention, PropagatesNan) {
  const WithFused installed;
  for (const auto& [full_query, type] : {std::pair(false, at::kFloat), std::pair(true, at::kFloat),
                                         std::pair(false, at::kBFloat16), std::pair(true, at::kBFloat16)}) {
    std::vector<Tensor> inputs;
    for (int i = 0; i < 3; ++i) inputs.push_back(at::randn({1, 1, 40, 8}).to(type));
    inputs[full_query ? 0 : 1].select(2, 20).fill_(std::nan(""));
    const Tensor is_nan =
        attention(inputs[0], inputs[1], inputs[2], causal_mask(Tensor(), /*window=*/0), 0.25).isnan().all(-1);
    const Tensor expected = full_query ? at::arange(40).eq(20) : at::arange(40).ge(20);  // or one of its keys
    EXPECT_TRUE(at::equal(is_nan.view({40}), expected)) << (full_query ? "query" : "key");
  }
}

class FusedAttentionTypes : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(FusedAttentionTypes, MatchTheFormulaForAnyScale) {
  const WithFused installed;
  std::vector<Tensor> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back((at::randn({1, 2, 70, 16}) * 8).to(GetParam()));
  const AttentionMask mask = causal_mask(Tensor(), /*window=*/0);
  for (const double scale : {-2.0, 0.0, 1e-3, 2.0}) {
    const Tensor found = attention(inputs[0], inputs[1], inputs[2], mask, scale).to(at::kDouble);
    const Tensor scores = inputs[0].to(at::kDouble).matmul(inputs[1].to(at::kDouble).mT()) * scale;
    const Tensor hidden = at::ones({70, 70}).triu(1).to(at::kBool);
    const Tensor expected =
        scores.masked_fill(hidden, -INFINITY).softmax(-1).matmul(inputs[2].to(at::kDouble)).transpose(1, 2).flatten(2);
    EXPECT_LE((found - expected).abs().max().item<double>(), GetParam() == at::kFloat ? 1e-3 : 0.25) << scale;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FusedAttentionTypes, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST_P(FusedAttentionTypes, SkipKeysOutsideAWindow) {
  const WithFused installed;
  const FinitePositions finite(causal_mask(Tensor(), /*window=*/33), 256, /*first=*/64, /*last=*/96, GetParam());
  EXPECT_TRUE(at::equal(finite.in_result, all_except(64, 128, 256))) << "the queries that see one of the keys";
  EXPECT_TRUE(at::equal(finite.in_gradients, all_except(32, 128, 256))) << "and the keys that these see";
}

TEST_P(FusedAttentionTypes, SkipKeysOfOtherDocuments) {
  const WithFused installed;
  for (const bool causal : {false, true}) {
    AttentionMask mask;
    mask.causal = causal;
    mask.documents = at::arange(256).div(64, "floor").unsqueeze(0);
    const FinitePositions finite(mask, 256, /*first=*/64, /*last=*/128, GetParam());
    EXPECT_TRUE(at::equal(finite.in_result, all_except(64, 128, 256)));
    EXPECT_TRUE(at::equal(finite.in_gradients, all_except(64, 128, 256)));
  }
}

TEST_P(FusedAttentionTypes, SkipPadding) {
  const WithFused installed;
  AttentionMask mask;
  mask.padding = at::arange(256).lt(128).unsqueeze(0);
  const FinitePositions finite(mask, 256, /*first=*/128, /*last=*/256, GetParam());
  EXPECT_TRUE(finite.in_result.all().item<bool>());
  EXPECT_TRUE(finite.in_gradients.all().item<bool>());
}

/// Peak bytes of a forward and a backward of attention in addition to their inputs and results.
int64_t measure_step_peak(const AttentionMask& mask, int64_t seq, int64_t keys) {
  std::vector<Tensor> inputs;
  for (const int64_t positions : {seq, keys, keys}) inputs.push_back(at::randn({1, 1, positions, 8}).requires_grad_());
  auto& allocator = testing::CountingAllocator::installed();
  const int64_t before = allocator.live();
  allocator.start();
  const Tensor mixed = attention(inputs[0], inputs[1], inputs[2], mask, 0.25);
  torch::autograd::grad({mixed}, inputs, {at::ones_like(mixed)});
  return allocator.peak() - before;
}

TEST(FusedAttention, AllocatesNoTensorOfQueriesTimesKeys) {
  const WithFused installed;
  testing::CountingAllocator::installed();
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // each thread has scratch memory
  constexpr int64_t kSeq = 8192;
  for (const int64_t window : {0, 512})
    for (const bool is_padded : {false, true}) {
      Batch batch;
      batch.input_ids = at::zeros({1, kSeq}, at::kLong);
      if (is_padded) batch.attention_mask = at::arange(kSeq).ge(100).unsqueeze(0);
      batch.documents = at::arange(kSeq).div(1000, "floor").unsqueeze(0);
      // All positions, or the last ones, as of a rank with context parallelism that gathers keys.
      const auto expect_none = [&](const AttentionMask& mask) {
        EXPECT_LT(measure_step_peak(mask, kSeq, kSeq), kSeq * kSeq / 4);
        EXPECT_LT(measure_step_peak(mask, kSeq / 2, kSeq), kSeq * kSeq / 4);
      };
      expect_none(causal_mask(batch, window));
      expect_none(bidirectional_mask(batch));
      batch.documents = Tensor();
      expect_none(causal_mask(batch, window));
    }
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace modular
