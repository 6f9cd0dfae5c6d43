// Several data sets: each has its share of the steps at any time, and its samples in its own order.
#include "runtime/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "runtime/data/token_dataset.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

/// The candidates of the first `count` turns.
std::vector<size_t> deal(const std::vector<double>& weights, uint64_t seed, int64_t count) {
  const Apportionment apportionment(weights, seed);
  std::vector<int64_t> turns(weights.size(), 0);
  std::vector<size_t> dealt;
  for (int64_t turn = 0; turn < count; ++turn) {
    dealt.push_back(apportionment.next(turns));
    ++turns.at(dealt.back());
  }
  return dealt;
}

TEST(Apportionment, EachHasHadItsShareWithinOneTurnAtAnyTime) {
  std::mt19937 generator(7);
  for (const size_t count : {1, 2, 3, 5, 12, 40}) {
    for (int repetition = 0; repetition < 5; ++repetition) {
      std::vector<double> weights;
      for (size_t i = 0; i < count; ++i)
        weights.push_back(std::pow(10.0, std::uniform_real_distribution(-2.0, 2.0)(generator)));
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      std::vector<double> had(count, 0.0);
      double turns = 0.0;
      for (const size_t next : deal(weights, repetition, 3000)) {
        ++had[next], ++turns;
        for (size_t i = 0; i < count; ++i)
          ASSERT_LE(std::abs(had[i] - turns * weights[i] / sum), 1.0) << "turn " << turns << " of " << count;
      }
    }
  }
}

TEST(Apportionment, OnlyTheSeedBreaksTies) {
  const std::vector<double> equal(4, 0.3);
  const auto one = deal(equal, 1, 40);
  EXPECT_EQ(one, deal(equal, 1, 40));
  EXPECT_NE(one, deal(equal, 2, 40));
  for (size_t round = 0; round < 10; ++round) {
    const std::vector<size_t> of_round(one.begin() + 4 * static_cast<std::ptrdiff_t>(round),
                                       one.begin() + 4 * static_cast<std::ptrdiff_t>(round) + 4);
    EXPECT_TRUE(std::ranges::is_permutation(of_round, std::vector<size_t>{0, 1, 2, 3})) << "round " << round;
  }
  EXPECT_EQ(deal({1e308, 1e308}, 1, 10), deal({1.0, 1.0}, 1, 10)) << "weights whose sum is not finite";
}

/// Two sets of 10 and 6 samples, with tokens below 100 and from 100 on.
class MixedSets : public testing::Test {
 protected:
  static constexpr int64_t kSeqLen = 2;

  MixedSets() {
    for (const auto& [name, first, count] : {std::tuple("few", 0, 10), std::tuple("many", 100, 6)}) {
      std::string text;
      for (int sample = 0; sample < count; ++sample) text.append(kSeqLen, static_cast<char>(first + sample));
      const std::vector<std::string> paths = {folder_.write(name, text)};
      samples_.emplace_back(TokenStream(find_data_files({.paths = paths}).training), kSeqLen, 256);
    }
  }

  MixedSource source(const BatchShape& shape, double weight = 2.0, uint64_t seed = 1) const {
    return {{{&samples_[0], 1.0}, {&samples_[1], weight}}, shape, seed};
  }

  TemporaryFolder folder_;
  std::vector<TokenDataset> samples_;
};

TEST_F(MixedSets, AStepReadsOneSetWhichIsTheSameOnEveryMesh) {
  DataPosition position;
  std::vector<int64_t> steps(2, 0);
  for (int64_t step = 0; step < 30; ++step) {
    const size_t set = source({4, 1, 0, 1}).set_at(position);
    ++steps[set];
    std::vector<std::vector<int64_t>> seen;
    for (const int64_t ranks : {1, 2, 4}) {
      auto& tokens = seen.emplace_back();
      std::vector<int64_t> positions;
      for (int64_t rank = 0; rank < ranks; ++rank)
        for (const Batch& batch : source({4 / ranks, 1, rank, ranks}).at(position))
          for (int64_t row = 0; row < 4 / ranks; ++row) {
            tokens.push_back(batch.input_ids[row][0].item<int64_t>());
            positions.push_back(batch.samples[row].item<int64_t>());
            EXPECT_EQ(tokens.back() >= 100, set == 1);
          }
      std::ranges::sort(tokens);
      std::ranges::sort(positions);
      EXPECT_EQ(positions, (std::vector<int64_t>{step * 4, step * 4 + 1, step * 4 + 2, step * 4 + 3}));
    }
    EXPECT_EQ(seen[0], seen[1]);
    EXPECT_EQ(seen[0], seen[2]);
    position = source({4, 1, 0, 1}).after(position);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{10, 20}));
}

TEST_F(MixedSets, EachSetIsSeenCompletelyBeforeItRepeats) {
  const MixedSource two = source({2, 1, 0, 1});
  EXPECT_EQ(two.samples(), 16);
  DataPosition position;
  std::vector<std::vector<int64_t>> seen(2);
  for (int64_t step = 0; step < 15; ++step) {
    for (const Batch& batch : two.at(position))
      for (int64_t row = 0; row < 2; ++row)
        seen[two.set_at(position)].push_back(batch.input_ids[row][0].item<int64_t>());
    position = two.after(position);
  }
  EXPECT_EQ(position.samples, 30);
  EXPECT_EQ(position.sets[0].samples, 10);
  EXPECT_EQ(position.sets[1].steps, 10);
  std::ranges::sort(seen[0]);
  EXPECT_EQ(seen[0], (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  for (size_t pass = 0; pass < 3; ++pass) {
    std::vector<int64_t> of_pass(seen[1].begin() + 6 * static_cast<std::ptrdiff_t>(pass),
                                 seen[1].begin() + 6 * static_cast<std::ptrdiff_t>(pass) + 6);
    std::ranges::sort(of_pass);
    EXPECT_EQ(of_pass, (std::vector<int64_t>{100, 101, 102, 103, 104, 105})) << "pass " << pass;
  }
}

}  // namespace
}  // namespace modular
