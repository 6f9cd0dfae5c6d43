// Functions that look along a sequence: a sequence in parts through a cache against the full sequence.
#include "runtime/model/cache.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "runtime/model/attention.h"
#include "runtime/model/rope.h"
#include "runtime/model/state_space.h"
#include "runtime/ops/fused.h"

namespace modular {
namespace {

constexpr int64_t kBatch = 2, kSeq = 19;

class Installed {
 public:
  explicit Installed(cache::Cache& cache) : binding_({.cache = &cache}) {}

 private:
  Binding binding_;
  at::NoGradGuard no_grad_;
};

/// Computes positions [first, first + size) of a sequence.
using Part = std::function<at::Tensor(int64_t first, int64_t size)>;

/// Expects that `part`, for several splits of the sequence with a cache each, matches the result of the full sequence.
void expect_parts_match_full_sequence(const Part& part) {
  const at::Tensor full = part(0, kSeq);
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{kSeq}, {1, 1, 1, 16}, {7, 1, 1, 1, 6, 3}, {2, 16, 1}}) {
    cache::Cache cache(/*expected=*/5);
    const Installed installed(cache);
    std::vector<at::Tensor> parts;
    for (const int64_t size : sizes) {
      parts.push_back(part(cache.seen(), size));
      cache.advance(size);
    }
    EXPECT_TRUE(at::allclose(at::cat(parts, 1), full, 1e-5, 1e-5)) << at::IntArrayRef(sizes);
    EXPECT_FALSE(cache.spoiled());
  }
}

TEST(Cache, ContinuesConvolutions) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({kBatch, kSeq, 3}), bias = at::randn({3});
  for (const int64_t kernel : {1, 2, 4}) {
    const at::Tensor weight = at::randn({3, 1, kernel});
    expect_parts_match_full_sequence(
        [&](int64_t first, int64_t size) { return causal_conv1d(x.narrow(1, first, size), weight, bias); });
  }
}

TEST(Cache, ContinuesRecurrences) {
  at::manual_seed(2);
  const at::Tensor x = at::randn({kBatch, kSeq, 4, 3}), dt = at::rand({kBatch, kSeq, 4}), A = -at::rand({4});
  const at::Tensor B = at::randn({kBatch, kSeq, 2, 5}), C = at::randn({kBatch, kSeq, 2, 5}), D = at::randn({4});
  for (const int64_t chunk_size : {1, 4, 64})
    expect_parts_match_full_sequence([&](int64_t first, int64_t size) {
      const auto part = [&](const at::Tensor& value) { return value.narrow(1, first, size); };
      return state_space_duality(part(x), part(dt), A, part(B), part(C), D, chunk_size);
    });
  const at::Tensor rates = -at::rand({4, 5}), write = B.select(2, 0), read = C.select(2, 0), input = x.select(3, 0);
  expect_parts_match_full_sequence([&](int64_t first, int64_t size) {
    const auto part = [&](const at::Tensor& value) { return value.narrow(1, first, size); };
    return selective_scan(part(input), part(dt), rates, part(write), part(read), D);
  });
}

TEST(Cache, ContinuesSinksAndAlibi) {
  at::manual_seed(4);
  const at::Tensor query = at::randn({kBatch, 4, kSeq, 8}), key = at::randn({kBatch, 2, kSeq, 8});
  const at::Tensor value = at::randn({kBatch, 2, kSeq, 8}), sinks = at::randn({4}),
                   ids = at::zeros({1, kSeq}, at::kLong);
  expect_parts_match_full_sequence([&](int64_t first, int64_t size) {
    const auto part = [&](const at::Tensor& tensor) { return tensor.narrow(2, first, size); };
    Batch batch;
    batch.input_ids = ids.narrow(1, first, size);
    const at::Tensor biases = alibi_mask(batch, alibi_slopes(4, at::kCPU), at::kFloat);
    return attention_with_biases(part(query), part(key), part(value), biases, 0.3) +
           attention_with_sinks(part(query), part(key), part(value), causal_mask(batch, 0), 0.3, sinks);
  });
}

TEST(Cache, ContinuesAttention) {
  at::set_num_threads(1);
  const FusedFunctions before = fused;
  at::manual_seed(3);
  const at::Tensor query = at::randn({kBatch, 4, kSeq, 8}), key = at::randn({kBatch, 2, kSeq, 8});
  const at::Tensor value = at::randn({kBatch, 2, kSeq, 8}), narrower = at::randn({kBatch, 2, kSeq, 6});
  for (const bool is_fused : {false, true}) {
    if (is_fused) install_fused_functions();
    for (const int64_t window : {0, 1, 4, 18})
      for (const std::optional<double> softcap : {std::optional<double>(), std::optional<double>(2.0)})
        for (const at::Tensor& values : {value, narrower})
          expect_parts_match_full_sequence([&](int64_t first, int64_t size) {
            const auto part = [&](const at::Tensor& each) { return each.narrow(2, first, size); };
            const AttentionMask mask = causal_mask(/*padding=*/at::Tensor(), window);
            return attention(part(query), part(key), part(values), mask, 0.3, softcap);
          });
  }
  fused = before;
}

/// Computes [batch, size, …] for positions [first, first + size) of sequences that begin at `begin`; with a cache, the
/// positions before that are padding.
using PaddedPart = std::function<at::Tensor(int64_t begin, int64_t first, int64_t size)>;

/// Expects that left padding does not change sequences.
void expect_padding_is_hidden(const PaddedPart& part) {
  constexpr int64_t kBegin = 5;
  const at::Tensor expected = part(kBegin, kBegin, kSeq - kBegin);
  cache::Cache cache;
  const Installed installed(cache);
  std::vector<at::Tensor> parts;
  for (const int64_t size : {9, 1, 1, 8}) {
    const int64_t end = cache.seen() + size;
    cache.begin((at::arange(end) >= kBegin).unsqueeze(0).expand({kBatch, end}));
    parts.push_back(part(kBegin, cache.seen(), size));
    cache.advance(size);
  }
  EXPECT_FALSE(cache.spoiled());
  EXPECT_TRUE(at::allclose(at::cat(parts, 1).narrow(1, kBegin, kSeq - kBegin), expected, 1e-5, 1e-5));
}

/// A batch of `size` tokens, with the padding of the tokens that the cache has seen and of these.
Batch padded_batch(int64_t size) {
  Batch batch;
  batch.input_ids = at::zeros({kBatch, size}, at::kLong);
  if (bound.cache) batch.attention_mask = bound.cache->padding();
  return batch;
}

TEST(Cache, HidesLeftPadding) {
  at::set_num_threads(1);
  const FusedFunctions before = fused;
  at::manual_seed(6);
  const at::Tensor query = at::randn({kBatch, 4, kSeq, 8}), key = at::randn({kBatch, 2, kSeq, 8});
  const at::Tensor value = at::randn({kBatch, 2, kSeq, 6}), x = at::randn({kBatch, kSeq, 3});
  const at::Tensor weight = at::randn({3, 1, 4}), bias = at::randn({3});
  for (const bool is_fused : {false, true}) {
    if (is_fused) install_fused_functions();
    for (const int64_t window : {0, 1, 4})
      for (const std::optional<double> softcap : {std::optional<double>(), std::optional<double>(2.0)})
        expect_padding_is_hidden([&](int64_t, int64_t first, int64_t size) {
          const auto part = [&](const at::Tensor& each) { return each.narrow(2, first, size); };
          return attention(part(query), part(key), part(value), causal_mask(padded_batch(size), window), 0.3, softcap);
        });
  }
  fused = before;
  expect_padding_is_hidden(
      [&](int64_t, int64_t first, int64_t size) { return causal_conv1d(x.narrow(1, first, size), weight, bias); });
  expect_padding_is_hidden([&](int64_t begin, int64_t first, int64_t size) {
    const at::Tensor positions = position_ids(padded_batch(size));
    return (bound.cache ? positions : positions + (first - begin))
        .unsqueeze(-1)
        .expand({kBatch, size, 1})
        .to(at::kFloat);
  });
}

TEST(Cache, KeepsOnlyTheSlidingWindow) {
  constexpr int64_t kReach = 3;
  const at::Tensor keys = at::arange(60.0).view({1, 1, 60, 1});
  for (const int64_t prompt : {1, 3, 4, 20}) {
    cache::Cache cache;
    const Installed installed(cache);
    for (int64_t first = 0; first < 60; first = cache.seen()) {
      const int64_t size = first == 0 ? prompt : 1, kept = std::min(first, kReach);
      const at::Tensor found = cache.append(keys.narrow(2, first, size), kReach);
      EXPECT_TRUE(at::equal(found, keys.narrow(2, first - kept, kept + size)));
      if (first > 0) EXPECT_LE(found.storage().nbytes(), std::max(2 * kReach + 1, prompt) * sizeof(float));
      cache.advance(size);
    }
  }
}

TEST(Cache, ContinuesWithSomeRows) {
  const at::Tensor keys = at::randn({3, 2, 9, 4}), rows = at::tensor({0, 2}, at::kLong);
  cache::Cache cache;
  const Installed installed(cache);
  cache.append(keys.narrow(2, 0, 5));
  cache.advance(5);
  cache.keep_rows(rows);
  const at::Tensor some = keys.index_select(0, rows);
  EXPECT_TRUE(at::equal(cache.append(some.narrow(2, 5, 4)), some));
}

TEST(Cache, ContinuesPositions) {
  Batch batch;
  batch.input_ids = at::zeros({kBatch, 3}, at::kLong);
  cache::Cache cache;
  const Installed installed(cache);
  EXPECT_TRUE(at::equal(position_ids(batch), at::tensor({0, 1, 2}, at::kLong).unsqueeze(0)));
  cache.advance(3);
  EXPECT_TRUE(at::equal(position_ids(batch), at::tensor({3, 4, 5}, at::kLong).unsqueeze(0)));
  batch.position_ids = at::ones({kBatch, 3}, at::kLong);
  EXPECT_TRUE(at::equal(position_ids(batch), batch.position_ids));
}

TEST(Cache, IsSpoiledByTablesThatDependOnTheLength) {
  RopeParameters rope;
  rope.factor = 2.0;
  for (const auto* kind : {"default", "linear", "dynamic"}) {
    rope.rope_type = kind;
    cache::Cache cache;
    const Installed installed(cache);
    const auto forward = [&](int64_t size) {
      Batch batch;
      batch.input_ids = at::zeros({1, size}, at::kLong);
      rotary_tables(rope, /*head_dim=*/8, /*max_position_embeddings=*/6, batch, at::kFloat);
      cache.advance(size);
    };
    forward(5), forward(1);
    EXPECT_FALSE(cache.spoiled()) << kind;
    forward(1);
    EXPECT_EQ(cache.spoiled(), rope.rope_type == "dynamic") << kind;
  }
}

TEST(Cache, IsSpoiledByPaddingAndMasksThatSeeLaterTokens) {
  Batch batch;
  batch.input_ids = at::zeros({kBatch, 3}, at::kLong);
  const auto spoils = [](const std::function<void()>& call) {
    cache::Cache cache;
    const Installed installed(cache);
    call();
    return cache.spoiled();
  };
  EXPECT_FALSE(spoils([&] { causal_mask(batch, 2); }));
  EXPECT_TRUE(spoils([&] { causal_mask(at::ones({kBatch, 3}, at::kLong), 0); }));
  EXPECT_TRUE(spoils([&] { bidirectional_mask(batch); }));
  EXPECT_TRUE(spoils([&] { whole_mask(); }));
  batch.documents = at::zeros({kBatch, 3}, at::kLong);
  EXPECT_TRUE(spoils([&] { causal_mask(batch, 0); }));
}

TEST(Cache, RequiresMatchingForwardsWithoutGradients) {
  cache::Cache cache;
  EXPECT_THROW(cache.next(), c10::Error) << "with gradients";
  const at::NoGradGuard no_grad;
  const at::Tensor added = at::zeros({1, 1, 2, 4});
  cache.append(added), cache.append(added);
  cache.advance(2);
  cache.append(added);
  EXPECT_THROW(cache.advance(2), c10::Error) << "one call too few";
  cache.append(added);
  EXPECT_THROW(cache.append(added), c10::Error) << "one call too many";
}

}  // namespace
}  // namespace modular
