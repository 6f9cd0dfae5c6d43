// Attention masks: as tensors and key ranges against their definition key by key, and masks of batches.
#include "runtime/model/attention_mask.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "runtime/ops/cpu/operations.h"

namespace modular {
namespace {

constexpr int64_t kBatch = 2;

/// Padding at both ends and in the middle, different in each row.
Tensor some_padding(int64_t keys) {
  Tensor padding = at::ones({kBatch, keys}, at::kBool);
  padding[0].slice(0, 0, 2).zero_();
  padding[1].slice(0, keys - 1, keys).zero_();
  if (keys > 4) padding[1][3].zero_();
  return padding;
}

/// Consecutive documents in one row; recurring documents in the other.
Tensor some_documents(int64_t keys) {
  const Tensor position = at::arange(keys);
  return at::stack({position.div(3, "floor"), position.div(2, "floor").remainder(2)});
}

/// Every combination of a mask's properties.
std::vector<AttentionMask> all_masks(int64_t keys) {
  std::vector<AttentionMask> masks;
  for (const bool causal : {false, true})
    for (const std::optional<int64_t> reach : {std::optional<int64_t>(), {0}, {1}, {4}, {100}})
      for (const Tensor& padding : {Tensor(), some_padding(keys), some_padding(keys).narrow(0, 1, 1)})
        for (const Tensor& documents : {Tensor(), some_documents(keys)})
          masks.push_back({causal, reach, padding, documents});
  return masks;
}

/// Whether the query at `position` among the keys sees `key`, in the given row of the batch.
bool sees(const AttentionMask& mask, int64_t row, int64_t position, int64_t key) {
  const auto get = [&](const Tensor& each, int64_t at) {
    return each[each.size(0) == 1 ? 0 : row][at].item<int64_t>();
  };
  if (mask.causal && key > position) return false;
  if (mask.reach && std::abs(position - key) > *mask.reach) return false;
  if (mask.padding.defined() && get(mask.padding, key) == 0) return false;
  return !mask.documents.defined() || get(mask.documents, position) == get(mask.documents, key);
}

Tensor key_by_key(const AttentionMask& mask, int64_t seq, int64_t keys) {
  const Tensor visible = at::zeros({kBatch, 1, seq, keys}, at::kBool);
  for (int64_t row = 0; row < kBatch; ++row)
    for (int64_t query = 0; query < seq; ++query)
      for (int64_t key = 0; key < keys; ++key)
        if (sees(mask, row, keys - seq + query, key)) visible[row][0][query][key].fill_(true);
  return visible;
}

TEST(AttentionMask, TensorMatchesItsDefinition) {
  for (const auto& [seq, keys] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {9, 9}, {3, 9}, {1, 7}})
    for (const AttentionMask& mask : all_masks(keys)) {
      const Tensor found = plain::visible_keys(mask, seq, keys, at::kCPU), expected = key_by_key(mask, seq, keys);
      EXPECT_EQ(found.size(1), 1);
      EXPECT_EQ(found.scalar_type(), at::kBool);
      EXPECT_TRUE(at::equal(found.expand_as(expected), expected))
          << "causal " << mask.causal << ", reach " << mask.reach.value_or(-1) << ", padding " << mask.padding.defined()
          << ", documents " << mask.documents.defined() << ", " << seq << " of " << keys;
      EXPECT_TRUE(!plain::sees_all(mask, seq, keys) || expected.all().item<bool>());
    }
}

TEST(AttentionMask, KnowsWhenAllKeysAreVisible) {
  EXPECT_TRUE(plain::sees_all(whole_mask(), 5, 5));
  EXPECT_TRUE(plain::sees_all(causal_mask(Tensor(), /*window=*/0), 1, 5)) << "the last query sees all earlier keys";
  EXPECT_TRUE(plain::sees_all(causal_mask(Tensor(), /*window=*/5), 1, 5));
  EXPECT_FALSE(plain::sees_all(causal_mask(Tensor(), /*window=*/4), 1, 5));
  EXPECT_FALSE(plain::sees_all(causal_mask(Tensor(), /*window=*/0), 2, 5));
  EXPECT_TRUE(plain::hides_earlier_keys(causal_mask(Tensor(), /*window=*/4), 5));
  EXPECT_FALSE(plain::hides_earlier_keys(causal_mask(Tensor(), /*window=*/5), 5));
}

TEST(AttentionMask, TakesPaddingAndDocumentsFromTheBatch) {
  Batch batch;
  batch.input_ids = at::zeros({2, 6}, at::kLong);
  batch.attention_mask = at::ones({2, 6}, at::kLong);
  batch.attention_mask[1].slice(0, 4).zero_();
  batch.documents = at::tensor({0, 0, 0, 1, 1, 1}, at::kLong).expand({2, 6});
  for (const AttentionMask& mask :
       {causal_mask(batch, /*window=*/2), bidirectional_mask(batch, /*reach=*/1), bidirectional_mask(batch)}) {
    EXPECT_TRUE(at::equal(mask.padding, batch.attention_mask.to(at::kBool)));
    EXPECT_TRUE(at::equal(mask.documents, batch.documents));
  }
  EXPECT_EQ(causal_mask(batch, /*window=*/2).reach, 1) << "a window counts the query itself";
  EXPECT_EQ(causal_mask(batch, /*window=*/0).reach, std::nullopt);
  EXPECT_EQ(bidirectional_mask(batch, /*reach=*/0).reach, 0);
  EXPECT_EQ(bidirectional_mask(batch).reach, std::nullopt);

  batch.documents = batch.documents.narrow(1, 0, 5);
  EXPECT_THROW(causal_mask(batch, 0), c10::Error) << "documents with a different shape";
}

/// The keys that the loops of CPU attention see, for each query of a row.
Tensor by_ranges(const cpu::VisibleKeys& visible, int64_t row, int64_t seq, int64_t keys) {
  cpu::AttentionShape shape{};
  visible.set(shape, row);
  const Tensor seen = at::zeros({seq, keys}, at::kBool);
  for (int64_t query = 0; query < seq; ++query)
    for (int64_t key = shape.visible[query].first; key < shape.visible[query].last; ++key)
      if ((!shape.present || shape.present[key]) &&
          (!shape.documents || shape.documents[key] == shape.documents[keys - seq + query]))
        seen[query][key].fill_(true);
  return seen;
}

TEST(AttentionMask, RangesMatchItsDefinition) {
  for (const auto& [seq, keys] : {std::pair(1, 1), {9, 9}, {4, 9}, {1, 6}})
    for (const AttentionMask& mask : all_masks(keys)) {
      const cpu::VisibleKeys visible(mask, seq, keys);
      const Tensor expected = key_by_key(mask, seq, keys);
      for (int64_t row = 0; row < kBatch; ++row)
        EXPECT_TRUE(at::equal(by_ranges(visible, row, seq, keys), expected[row][0]))
            << seq << " of " << keys << ", causal " << mask.causal << ", reach " << mask.reach.value_or(-1)
            << ", padding " << mask.padding.defined() << ", documents " << mask.documents.defined() << ", row " << row;
    }
}

TEST(AttentionMask, UsesOnlyRangesIfTheySuffice) {
  const int64_t seq = 8;
  AttentionMask mask = causal_mask(at::tensor({0, 0, 1, 1, 1, 1, 1, 0}, at::kLong).unsqueeze(0), /*window=*/3);
  mask.documents = at::tensor({5, 5, 5, 5, 2, 2, 2, 2}, at::kLong).unsqueeze(0);
  cpu::AttentionShape shape{};
  const cpu::VisibleKeys visible(mask, seq, seq);
  visible.set(shape, 0);
  EXPECT_EQ(shape.present, nullptr);
  EXPECT_EQ(shape.documents, nullptr);
}

}  // namespace
}  // namespace modular
