// Cuts between pipeline stages, and errors for invalid pipeline options.
#include "runtime/parallel/pipeline/pipeline_stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>

#include "runtime/parallel/pipeline/pipeline_options.h"

namespace modular {
namespace {

using Numbers = std::vector<int64_t>;

Numbers equal_layers(size_t count) { return Numbers(count, 1); }

TEST(BalancedCuts, AreEvenForEqualLayersWithLongerStagesFirst) {
  EXPECT_EQ(balanced_cuts(equal_layers(4), 2), Numbers({2}));
  EXPECT_EQ(balanced_cuts(equal_layers(7), 3), Numbers({3, 5}));
  EXPECT_EQ(balanced_cuts(equal_layers(8), 3), Numbers({3, 6}));
  EXPECT_EQ(balanced_cuts(equal_layers(5), 1), Numbers());
  for (int64_t layers = 1; layers < 20; ++layers)
    for (int64_t stages = 1; stages <= layers; ++stages) {
      Numbers expected;
      for (int64_t stage = 1; stage < stages; ++stage)
        expected.push_back(stage * (layers / stages) + std::min(stage, layers % stages));
      EXPECT_EQ(balanced_cuts(equal_layers(static_cast<size_t>(layers)), stages), expected);
    }
}

TEST(BalancedCuts, GiveTheStageWithTheHeadFewerLayers) {
  // Eight layers of cost 1, and a head of cost 2 with the last.
  const Numbers costs = {1, 1, 1, 1, 1, 1, 1, 3};
  EXPECT_EQ(balanced_cuts(costs, 2), Numbers({5})) << "5 and 3 + 2";
  EXPECT_EQ(balanced_cuts(costs, 5), Numbers({2, 4, 6, 7})) << "2, 2, 2, 1 and 1 + 2";
  EXPECT_EQ(balanced_cuts(costs, 8), Numbers({1, 2, 3, 4, 5, 6, 7})) << "one layer each, whatever the cost";
  // The cost of modules before the layers counts with the first layer.
  EXPECT_EQ(balanced_cuts({3, 1, 1, 1, 1, 1}, 2), Numbers({2})) << "3 + 1 and 4";
}

TEST(BalancedCuts, BalanceStacksWithDifferentLayerCosts) {
  EXPECT_EQ(balanced_cuts({2, 2, 2, 3, 3, 3}, 2), Numbers({4})) << "9 and 6 rather than 6 and 9";
  EXPECT_EQ(balanced_cuts({1, 1, 1, 1, 4, 4, 4}, 4), Numbers({4, 5, 6}))
      << "the entire cheap stack, then one layer each";
  EXPECT_EQ(balanced_cuts({9, 1, 1, 1}, 3), Numbers({1, 3})) << "after the indivisible layer, the others are even";
}

/// Calls `found` with each division of the layers into stages.
void each_cut(int64_t layers, int64_t stages, Numbers& cuts, const std::function<void()>& found) {
  if (static_cast<int64_t>(cuts.size()) == stages - 1) return found();
  for (int64_t cut = cuts.empty() ? 1 : cuts.back() + 1; cut < layers; ++cut) {
    cuts.push_back(cut);
    each_cut(layers, stages, cuts, found);
    cuts.pop_back();
  }
}

/// Costs of the stages, in descending order.
Numbers costs_of_stages(const Numbers& costs, const Numbers& cuts) {
  Numbers of_stages(cuts.size() + 1);
  for (size_t layer = 0; layer < costs.size(); ++layer) {
    const auto stage = std::ranges::upper_bound(cuts, static_cast<int64_t>(layer)) - cuts.begin();
    of_stages[static_cast<size_t>(stage)] += costs[layer];
  }
  std::ranges::sort(of_stages, std::greater<>());
  return of_stages;
}

TEST(BalancedCuts, AreOptimal) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    Numbers costs(1 + random() % 8);
    for (int64_t& cost : costs) cost = static_cast<int64_t>(random() % (round % 2 == 0 ? 3 : 100));
    const auto layers = static_cast<int64_t>(costs.size()), stages = 1 + static_cast<int64_t>(random() % costs.size());
    Numbers best, cuts;
    bool is_first = true;
    each_cut(layers, stages, cuts, [&] {
      // Cuts are in ascending order, so among equal divisions the last one has the longer earlier stages.
      if (!is_first && costs_of_stages(costs, cuts) > costs_of_stages(costs, best)) return;
      is_first = false;
      best = cuts;
    });
    EXPECT_EQ(balanced_cuts(costs, stages), best) << ::testing::PrintToString(costs);
  }
}

TEST(StageCuts, UseTheOptionsOrBalance) {
  EXPECT_EQ(stage_cuts({.cuts = {1, 6}}, 3, equal_layers(7)), Numbers({1, 6}));
  EXPECT_EQ(stage_cuts({}, 3, equal_layers(7)), Numbers({3, 5}));
  EXPECT_EQ(stage_cuts({.schedule = "zbv"}, 2, {1, 1, 1, 1, 4}), Numbers({2, 3, 4})) << "four stages of two ranks";
}

TEST(StageOnRank, RunsTheLayersBetweenItsCuts) {
  EXPECT_EQ(StageOnRank(0, {1, 6}).span(7), (std::pair<int64_t, int64_t>(0, 1)));
  EXPECT_EQ(StageOnRank(1, {1, 6}).span(7), (std::pair<int64_t, int64_t>(1, 6)));
  EXPECT_EQ(StageOnRank(2, {1, 6}).span(7), (std::pair<int64_t, int64_t>(6, 7)));
  for (int64_t layer = 0; layer < 7; ++layer) EXPECT_EQ(StageOnRank(1, {1, 6}).holds(layer), 1 <= layer && layer < 6);
  EXPECT_TRUE(StageOnRank(2, {1, 6}).holds(6));
}

std::string error(const PipelineOptions& options, int64_t ranks, int64_t micro_batches) {
  const auto [key, sentence] = pipeline_error(options, ranks, micro_batches);
  EXPECT_EQ(key.empty(), sentence.empty());
  return sentence.empty() ? "" : key + ": " + sentence;
}

TEST(StageOnRank, KnowsWhereTwoStacksBeginAndEnd) {
  // Stacks of 3 and 4 layers, in stages [0, 2), [2, 3), [3, 5), [5, 7) and, with different cuts, in stages with layers
  // of both.
  const auto stage = [](int64_t number, std::vector<int64_t> cuts) {
    return StageOnRank(number, std::move(cuts), {3, 4});
  };
  const auto ends = [](const StageOnRank& stage_on_rank) {
    std::string text;
    for (const size_t stack : {0, 1})
      text += std::string(stage_on_rank.begins(stack) ? "b" : "-") + (stage_on_rank.ends(stack) ? "e" : "-");
    return text + std::to_string(stage_on_rank.receives());
  };
  const std::vector<std::string> between = {"b---0", "-e--1", "--b-1", "---e2"}, across = {"beb-0", "----2", "---e2"};
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(ends(stage(i, {2, 3, 5})), between[static_cast<size_t>(i)]) << i;
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(ends(stage(i, {4, 5})), across[static_cast<size_t>(i)]) << i;
  EXPECT_EQ(stage(0, {4, 5}).layers(1, 4), (std::pair<int64_t, int64_t>(0, 1)));
  EXPECT_EQ(stage(2, {4, 5}).layers(1, 4), (std::pair<int64_t, int64_t>(2, 4)));
  EXPECT_EQ(stage(2, {4, 5}).layers(0, 3).first, stage(2, {4, 5}).layers(0, 3).second);
}

TEST(PipelineError, IsEmptyForValidOptions) {
  for (const char* name :
       {"gpipe", "1f1b", "interleaved", "looped-bfs", "interleaved-zero-bubble", "zbv", "dualpipev"}) {
    EXPECT_EQ(error({.schedule = name}, 2, 4), "");
    EXPECT_EQ(error({.schedule = name}, 1, 3), "") << "without a pipeline no schedule is run";
  }
  EXPECT_EQ(error({.schedule = "interleaved", .stages_per_rank = 3, .cuts = {2, 3, 4, 9, 11}}, 2, 8), "");
  EXPECT_EQ(error({.schedule = "interleaved"}, 2, 0), "") << "evaluation takes any number";
}

TEST(PipelineError, NamesTheKeyAndTheFix) {
  EXPECT_EQ(error({.schedule = "zigzag"}, 2, 4),
            "parallel.schedule: parallel.schedule is \"zigzag\": it must be one of gpipe, 1f1b, interleaved, "
            "looped-bfs, interleaved-zero-bubble, zbv, dualpipev, or a path that ends in .csv");
  EXPECT_EQ(error({.schedule = "interleaved"}, 4, 6),
            "parallel.schedule: parallel.schedule: interleaved needs a number of micro-batches that is a multiple of "
            "pp = 4, but "
            "train.micro_batches is 6: set it to 8, or choose another schedule");
  EXPECT_EQ(error({.schedule = "dualpipev"}, 4, 6),
            "parallel.schedule: parallel.schedule: dualpipev needs at least 8 micro-batches with pp = 4, but "
            "train.micro_batches is 6: raise it, or choose another schedule");
  EXPECT_EQ(
      error({.schedule = "1f1b", .stages_per_rank = 2}, 2, 4),
      "parallel.stages_per_rank: parallel.stages_per_rank is 2, but 1f1b has 1 stage per rank: set it to 1, or to 0");
  EXPECT_EQ(
      error({.schedule = "interleaved", .stages_per_rank = 1}, 2, 4),
      "parallel.stages_per_rank: parallel.stages_per_rank is 1, but interleaved has at least 2 stages per rank: set "
      "it to 2, or to 0");
  EXPECT_EQ(error({.cuts = {3}}, 1, 1),
            "parallel.cuts: parallel.cuts sets stage boundaries, but parallel.pp is 1: leave it empty");
  EXPECT_EQ(error({.cuts = {3, 4}}, 2, 1),
            "parallel.cuts: parallel.cuts is [3, 4], but parallel.pp and parallel.schedule make 2 stages: give the 1 "
            "first layers of the later stages");
  for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, 3}, {3, 3}, {4, 3}})
    EXPECT_NE(error({.cuts = cuts}, 3, 1).find("write ascending numbers of at least 1"), std::string::npos);
}

TEST(PipelineError, OfAScheduleFile) {
  const std::string file = ::testing::TempDir() + "/rejected.csv";
  std::ofstream(file) << "0F0,0B0\n1F0,1B0\n";
  const PipelineOptions options{.schedule = file};
  EXPECT_EQ(error(options, 2, 1), "");
  EXPECT_EQ(error(options, 3, 1), "parallel.schedule: parallel.schedule: " + file +
                                      " has rows for 2 ranks, but parallel.pp is 3: set parallel.pp to 2, or choose "
                                      "another schedule");
  EXPECT_EQ(error(options, 2, 4),
            "parallel.schedule: parallel.schedule: " + file +
                " cannot run with train.micro_batches = 4, because stage 0 does not run the forward of each of 4 "
                "micro-batches once: correct the file or train.micro_batches");
  EXPECT_EQ(error({.schedule = file, .stages_per_rank = 2}, 2, 1),
            "parallel.stages_per_rank: parallel.stages_per_rank is 2, but " + file +
                " defines which stages are on a rank: set it to 0");
  std::ofstream(file) << "0F0,0B0\n1F0,1Q0\n";
  EXPECT_EQ(error(options, 2, 1).find("parallel.schedule: " + file + ":2:5: "), 0U);
}

}  // namespace
}  // namespace modular
