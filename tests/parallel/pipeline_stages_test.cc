// How layers are divided between stages, and which settings of a pipeline are refused.
#include "runtime/parallel/pipeline_stages.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "runtime/parallel/pipeline_options.h"

namespace modular {
namespace {

TEST(StageSpan, SplitsLayersAsEvenlyAsCanBe) {
  EXPECT_EQ(stage_span(4, 0, 2), (std::pair<int64_t, int64_t>(0, 2)));
  EXPECT_EQ(stage_span(4, 1, 2), (std::pair<int64_t, int64_t>(2, 4)));
  EXPECT_EQ(stage_span(7, 0, 3), (std::pair<int64_t, int64_t>(0, 3)));
  EXPECT_EQ(stage_span(7, 1, 3), (std::pair<int64_t, int64_t>(3, 5)));
  EXPECT_EQ(stage_span(7, 2, 3), (std::pair<int64_t, int64_t>(5, 7)));
}

TEST(StageSpan, SplitsLayersAtTheCuts) {
  EXPECT_EQ(stage_span(7, 0, 3, {1, 6}), (std::pair<int64_t, int64_t>(0, 1)));
  EXPECT_EQ(stage_span(7, 1, 3, {1, 6}), (std::pair<int64_t, int64_t>(1, 6)));
  EXPECT_EQ(stage_span(7, 2, 3, {1, 6}), (std::pair<int64_t, int64_t>(6, 7)));
}

TEST(StageSpan, CoversEveryLayerOnceForAllSizes) {
  for (int64_t layers = 0; layers < 20; ++layers) {
    for (int64_t stages = 1; stages < 8; ++stages) {
      int64_t next = 0;
      for (int64_t stage = 0; stage < stages; ++stage) {
        const auto [first, last] = stage_span(layers, stage, stages);
        EXPECT_EQ(first, next);
        EXPECT_LE(std::abs((last - first) * stages - layers), stages - 1) << "within one of the mean";
        next = last;
      }
      EXPECT_EQ(next, layers);
    }
  }
}

std::string refusal(const PipelineOptions& options, int64_t ranks, int64_t micro_batches) {
  const auto [key, sentence] = pipeline_refusal(options, ranks, micro_batches);
  EXPECT_EQ(key.empty(), sentence.empty());
  return sentence.empty() ? "" : key + ": " + sentence;
}

TEST(PlacedStage, KnowsWhereTwoTowersBeginAndEnd) {
  // Of 3 and 4 layers, in stages [0, 2), [2, 3), [3, 5), [5, 7) and, cut elsewhere, of both towers.
  const auto stage = [](int64_t number, std::vector<int64_t> cuts) {
    const auto stages = static_cast<int64_t>(cuts.size()) + 1;
    return PlacedStage(number, stages, std::move(cuts), {3, 4});
  };
  const auto ends = [](const PlacedStage& one) {
    std::string text;
    for (const size_t tower : {0, 1})
      text += std::string(one.begins(tower) ? "b" : "-") + (one.ends(tower) ? "e" : "-");
    return text + std::to_string(one.receives());
  };
  const std::vector<std::string> between = {"b---0", "-e--1", "--b-1", "---e2"}, across = {"beb-0", "----2", "---e2"};
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(ends(stage(i, {2, 3, 5})), between[static_cast<size_t>(i)]) << i;
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(ends(stage(i, {4, 5})), across[static_cast<size_t>(i)]) << i;
  EXPECT_EQ(stage(0, {4, 5}).layers(1, 4), (std::pair<int64_t, int64_t>(0, 1)));
  EXPECT_EQ(stage(2, {4, 5}).layers(1, 4), (std::pair<int64_t, int64_t>(2, 4)));
  EXPECT_EQ(stage(2, {4, 5}).layers(0, 3).first, stage(2, {4, 5}).layers(0, 3).second);
}

TEST(PipelineRefusal, SaysNothingOfWhatCanBe) {
  for (const char* name :
       {"gpipe", "1f1b", "interleaved", "looped-bfs", "interleaved-zero-bubble", "zbv", "dualpipev"}) {
    EXPECT_EQ(refusal({.schedule = name}, 2, 4), "");
    EXPECT_EQ(refusal({.schedule = name}, 1, 3), "") << "without a pipeline no schedule is run";
  }
  EXPECT_EQ(refusal({.schedule = "interleaved", .stages_per_rank = 3, .cuts = {2, 3, 4, 9, 11}}, 2, 8), "");
  EXPECT_EQ(refusal({.schedule = "interleaved"}, 2, 0), "") << "evaluation takes any number";
}

TEST(PipelineRefusal, NamesTheSettingAndTheRemedy) {
  EXPECT_EQ(refusal({.schedule = "zigzag"}, 2, 4),
            "parallel.schedule: parallel.schedule is \"zigzag\": it must be one of gpipe, 1f1b, interleaved, "
            "looped-bfs, interleaved-zero-bubble, zbv, dualpipev, or a path that ends in .csv");
  EXPECT_EQ(
      refusal({.schedule = "interleaved"}, 4, 6),
      "parallel.schedule: parallel.schedule: interleaved needs a number of micro-batches that pp = 4 divides, and "
      "train.micro_batches is 6: make it 8, or choose another schedule");
  EXPECT_EQ(refusal({.schedule = "dualpipev"}, 4, 6),
            "parallel.schedule: parallel.schedule: dualpipev needs at least 8 micro-batches with pp = 4, and "
            "train.micro_batches is 6: raise it, or choose another schedule");
  EXPECT_EQ(
      refusal({.schedule = "1f1b", .stages_per_rank = 2}, 2, 4),
      "parallel.stages_per_rank: parallel.stages_per_rank is 2, and 1f1b has 1 stage a rank: set it to 1, or to 0");
  EXPECT_EQ(
      refusal({.schedule = "interleaved", .stages_per_rank = 1}, 2, 4),
      "parallel.stages_per_rank: parallel.stages_per_rank is 1, and interleaved has at least 2 stages a rank: set "
      "it to 2, or to 0");
  EXPECT_EQ(refusal({.cuts = {3}}, 1, 1),
            "parallel.cuts: parallel.cuts says where stages begin, and parallel.pp is 1: leave it empty");
  EXPECT_EQ(refusal({.cuts = {3, 4}}, 2, 1),
            "parallel.cuts: parallel.cuts is [3, 4], and parallel.pp and parallel.schedule make 2 stages: give the 1 "
            "places where the later ones begin");
  for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, 3}, {3, 3}, {4, 3}})
    EXPECT_NE(refusal({.cuts = cuts}, 3, 1).find("let the numbers ascend from at least 1"), std::string::npos);
}

TEST(PipelineRefusal, OfAFile) {
  const std::string file = ::testing::TempDir() + "/refused.csv";
  std::ofstream(file) << "0F0,0B0\n1F0,1B0\n";
  const PipelineOptions options{.schedule = file};
  EXPECT_EQ(refusal(options, 2, 1), "");
  EXPECT_EQ(refusal(options, 3, 1), "parallel.schedule: parallel.schedule: " + file +
                                        " has rows for 2 ranks, and parallel.pp is 3: set parallel.pp to 2, or choose "
                                        "another schedule");
  EXPECT_EQ(refusal(options, 2, 4),
            "parallel.schedule: parallel.schedule: " + file +
                " cannot run with train.micro_batches = 4, as stage 0 does not run the forward of each of 4 "
                "micro-batches once: correct the file or the number");
  EXPECT_EQ(refusal({.schedule = file, .stages_per_rank = 2}, 2, 1),
            "parallel.stages_per_rank: parallel.stages_per_rank is 2, and " + file +
                " says itself which stages lie on a rank: set it to 0");
  std::ofstream(file) << "0F0,0B0\n1F0,1Q0\n";
  EXPECT_EQ(refusal(options, 2, 1).find("parallel.schedule: " + file + ":2:5: "), 0U);
}

}  // namespace
}  // namespace modular
