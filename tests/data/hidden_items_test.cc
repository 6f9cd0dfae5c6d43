// Which items of sessions are hidden: in training a fraction of them, which depends on the sample's position in the
// run's order; in evaluation the last one; and the next one on request.
#include "runtime/data/masking.h"

#include <gtest/gtest.h>

namespace modular {
namespace {

constexpr int64_t kSessions = 400, kSeq = 12;

/// Session i has i % 13 items, i * 100 + 1 … , and no mask.
class Sessions final : public Dataset {
 public:
  int64_t count() const override { return kSessions; }
  int64_t tokens() const override { return kSeq; }
  Batch read(std::span<const SamplePosition> positions, int64_t samples) const override {
    Batch batch;
    batch.input_ids = at::zeros({samples, kSeq}, at::kLong);
    batch.labels = at::full({samples, kSeq}, kIgnoredTarget, at::kLong);
    for (size_t row = 0; row < positions.size(); ++row) {
      const int64_t items = positions[row].sample % 13, index = static_cast<int64_t>(row);
      batch.input_ids[index].narrow(0, 0, items).copy_(at::arange(items) + positions[row].sample * 100 + 1);
      batch.labels[index].narrow(0, 0, items).copy_(batch.input_ids[index].narrow(0, 0, items));
    }
    batch.feature_ids = batch.input_ids.unsqueeze(-1) * 2;
    return batch;
  }
};

Batch hidden(std::optional<double> probability, int64_t first_position, uint64_t seed = 1) {
  const HiddenItems samples(std::make_unique<Sessions>(), probability, seed);
  std::vector<SamplePosition> positions;
  for (int64_t sample = 0; sample < kSessions; ++sample) positions.push_back({sample, first_position + sample});
  return samples.read(positions, kSessions);
}

TEST(HiddenItems, AreAFractionOfEachSessionInTrainingAtLeastOneAndNotAll) {
  const Batch batch = hidden(0.3, 0);
  const at::Tensor is_hidden = batch.labels.ne(kIgnoredTarget), items = at::arange(kSessions).remainder(13);
  EXPECT_TRUE(batch.labels.masked_select(is_hidden).equal(batch.input_ids.masked_select(is_hidden)))
      << "a label is the item that is hidden";
  const at::Tensor counts = is_hidden.sum(1);
  EXPECT_TRUE(counts.masked_select(items.lt(2)).eq(0).all().item<bool>()) << "nothing would be seen";
  EXPECT_TRUE(counts.masked_select(items.ge(2)).ge(1).all().item<bool>());
  EXPECT_TRUE(counts.lt(items.clamp_min(1)).all().item<bool>());
  const at::Tensor of_long = items.ge(8);  // long sessions, in which the minimum and the maximum hardly matter
  const double share =
      counts.masked_select(of_long).sum().item<double>() / items.masked_select(of_long).sum().item<double>();
  EXPECT_NEAR(share, 0.3, 0.04);
}

TEST(HiddenItems, DependOnlyOnTheSeedAndTheSamplesPosition) {
  EXPECT_TRUE(hidden(0.3, 0).labels.equal(hidden(0.3, 0).labels));
  EXPECT_FALSE(hidden(0.3, 0).labels.equal(hidden(0.3, kSessions).labels)) << "a later pass hides others";
  EXPECT_FALSE(hidden(0.3, 0).labels.equal(hidden(0.3, 0, 2).labels));
}

TEST(HiddenItems, AreTheLastOnesInEvaluation) {
  const Batch batch = hidden({}, 0);
  for (int64_t sample = 0; sample < 26; ++sample) {
    const int64_t items = sample % 13;
    at::Tensor expected = at::full({kSeq}, kIgnoredTarget, at::kLong);
    if (items > 1) expected[items - 1] = sample * 100 + items;
    EXPECT_TRUE(batch.labels[sample].equal(expected)) << sample;
  }
}

TEST(HiddenItems, TheNextOneFollowsTheLastItemsThatFit) {
  Batch sessions = hidden({}, 0);
  sessions.labels.reset();
  sessions.attention_mask.reset();
  const Batch longer = with_next_hidden(sessions, /*longest=*/kSeq + 4), full = with_next_hidden(sessions, kSeq);
  EXPECT_EQ(longer.input_ids.size(1), kSeq + 1);
  EXPECT_EQ(full.input_ids.size(1), kSeq);
  // The same with padding before the items and in the middle of them.
  Batch spread = sessions;
  spread.input_ids = at::zeros({kSessions, 2 * kSeq}, at::kLong);
  spread.input_ids.slice(1, 1, 2 * kSeq, 2).copy_(sessions.input_ids);
  spread.feature_ids = spread.input_ids.unsqueeze(-1) * 2;
  EXPECT_TRUE(with_next_hidden(spread, kSeq).input_ids.equal(full.input_ids));
  EXPECT_TRUE(with_next_hidden(spread, kSeq).feature_ids.equal(full.feature_ids));
  for (int64_t sample = 0; sample < 13; ++sample) {
    const int64_t items = sample, kept = std::min(items, kSeq - 1);
    EXPECT_TRUE(longer.input_ids[sample].narrow(0, 0, kSeq).equal(sessions.input_ids[sample]));
    EXPECT_EQ(longer.labels[sample].ne(kIgnoredTarget).nonzero().item<int64_t>(), items);
    EXPECT_EQ(longer.attention_mask[sample].sum().item<int64_t>(), items + 1);
    EXPECT_TRUE(
        full.input_ids[sample].narrow(0, 0, kept).equal(sessions.input_ids[sample].narrow(0, items - kept, kept)));
    EXPECT_EQ(full.labels[sample].ne(kIgnoredTarget).nonzero().item<int64_t>(), kept);
    EXPECT_TRUE(full.feature_ids.select(2, 0).equal(full.input_ids * 2)) << "features go with their items";
  }
}

}  // namespace
}  // namespace modular
