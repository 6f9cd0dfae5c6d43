// The order of samples, on any number of ranks.
#include "runtime/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/data/sample_order.h"
#include "runtime/data/token_dataset.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

constexpr int64_t kSeqLen = 4;

/// 64 samples; all tokens of a sample are its index.
class Batches : public testing::Test {
 protected:
  Batches() {
    std::string text;
    for (char sample = 0; sample < 64; ++sample) text.append(kSeqLen, sample);
    folder_.write("text", text);
    samples_.emplace(TokenStream(find_data_files({.paths = {folder_.path()}}).training), kSeqLen, 256);
  }

  /// The samples that the ranks of a mesh see in the step at `position`, sorted.
  std::vector<int64_t> step(int64_t dp_size, int64_t micro_batch, int64_t micro_batches, int64_t position,
                            uint64_t seed = 1) const {
    std::vector<int64_t> seen;
    for (int64_t rank = 0; rank < dp_size; ++rank) {
      const BatchSource source(*samples_, {micro_batch, micro_batches, rank, dp_size}, seed);
      for (const auto& batch : source.at({position})) {
        EXPECT_EQ(batch.input_ids.sizes(), (std::vector<int64_t>{micro_batch, kSeqLen}));
        EXPECT_TRUE(batch.labels.equal(batch.input_ids));
        for (int64_t row = 0; row < micro_batch; ++row) seen.push_back(batch.input_ids[row][0].item<int64_t>());
      }
    }
    std::ranges::sort(seen);
    return seen;
  }

  TemporaryFolder folder_;
  std::optional<TokenDataset> samples_;
};

TEST_F(Batches, AStepSeesTheSameSamplesOnEveryMesh) {
  const auto alone = step(1, 8, 1, 16);
  EXPECT_EQ(step(2, 4, 1, 16), alone);
  EXPECT_EQ(step(4, 1, 2, 16), alone);
  EXPECT_EQ(step(1, 2, 4, 16), alone);
}

TEST_F(Batches, EachPassSeesEverySampleOnceInItsOwnOrder) {
  std::vector<int64_t> first, second;
  for (int64_t sample = 0; sample < 64; ++sample) {
    first.push_back(sample_at(sample, 64, 1));
    second.push_back(sample_at(64 + sample, 64, 1));
  }
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 64u);
  EXPECT_EQ(std::set<int64_t>(second.begin(), second.end()).size(), 64u);
}

TEST_F(Batches, TheSeedDeterminesTheOrder) {
  EXPECT_EQ(step(1, 8, 1, 0, 1), step(1, 8, 1, 0, 1));
  EXPECT_NE(step(1, 8, 1, 0, 1), step(1, 8, 1, 0, 2));
}

TEST_F(Batches, StepsContinueAcrossTheEndOfAPass) {
  std::vector<int64_t> seen = step(1, 8, 1, 60), expected;
  for (int64_t position = 60; position < 68; ++position) expected.push_back(sample_at(position, 64, 1));
  std::ranges::sort(expected);
  EXPECT_EQ(seen, expected);
}

TEST(SampleOrder, IsNotTheShiftedOrderOfThePreviousPass) {
  // In a Feistel network whose rounds begin one later, the left half of the result for (c, x ^ k), for some k, equals
  // the right half of the original network's result for (x, c).
  constexpr int64_t kHalf = 64;
  const auto at = [](int64_t left, int64_t right, int64_t pass) {
    return sample_at(pass * kHalf * kHalf + left * kHalf + right, kHalf * kHalf, 1);
  };
  for (int64_t c = 0; c < kHalf; ++c)
    for (int64_t k = 0; k < kHalf; ++k) {
      int64_t shifted = 0;
      for (int64_t x = 0; x < kHalf; ++x) shifted += at(c, x ^ k, 1) / kHalf == at(x, c, 0) % kHalf;
      ASSERT_LT(shifted, kHalf / 2) << "c " << c << ", k " << k;
    }
}

TEST_F(Batches, EvaluationSeesEachSampleOnceOnEveryMesh) {
  for (const int64_t dp_size : {1, 2, 4}) {
    std::vector<int64_t> seen;
    for (int64_t rank = 0; rank < dp_size; ++rank) {
      const BatchSource source(*samples_, {2, 2, rank, dp_size}, 1);
      for (int64_t step = 0; step < source.steps_for(11); ++step)
        for (const auto& batch : source.step_of_first(11, step))
          for (int64_t row = 0; row < 2; ++row)
            if (const auto label = batch.labels[row][0].item<int64_t>(); label != kIgnoredTarget) seen.push_back(label);
    }
    std::vector<int64_t> expected;
    for (int64_t sample = 0; sample < 11; ++sample) expected.push_back(sample_at(sample, 64, 1));
    std::ranges::sort(seen);
    std::ranges::sort(expected);
    EXPECT_EQ(seen, expected) << "on " << dp_size << " ranks";
  }
}

TEST_F(Batches, RejectsATokenOutsideTheVocabulary) {
  const TokenDataset samples(TokenStream(find_data_files({.paths = {folder_.path()}}).training), kSeqLen, 63);
  const BatchSource source(samples, {64, 1, 0, 1}, 1);
  EXPECT_EQ(get_message<DataError>([&] { source.at({0}); }),
            (folder_.path() / "text").string() +
                ": holds token 63 but model.config.vocab_size is 63: use a model with a larger vocabulary, or other "
                "data");
}

TEST_F(Batches, RejectsDataShorterThanASample) {
  TokenStream stream(find_data_files({.paths = {folder_.path()}}).training);
  EXPECT_EQ(get_message<DataError>([&] { TokenDataset(stream, 1000, 256); }),
            "the data has 256 tokens, less than one sample of train.seq_len = 1000: use more data or shorter samples");
}

TEST(Permutation, IsAPermutationForEverySize) {
  for (const int64_t count : {1, 2, 3, 7, 64, 1000}) {
    std::set<int64_t> images;
    for (int64_t i = 0; i < count; ++i) images.insert(permuted(i, count, 42));
    EXPECT_EQ(static_cast<int64_t>(images.size()), count);
    EXPECT_GE(*images.begin(), 0);
    EXPECT_LT(*images.rbegin(), count);
  }
}

}  // namespace
}  // namespace modular
