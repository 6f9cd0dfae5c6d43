#include "runtime/parallel/pipeline_schedule.h"

#include <gtest/gtest.h>

namespace modular {
namespace {

using Kind = PipelineAction::Kind;

/// "F0 F1 B0 …"
std::string text(const std::vector<PipelineAction>& actions) {
  std::string result;
  for (const auto& [kind, micro_batch] : actions) {
    if (!result.empty()) result += ' ';
    result += kind == Kind::forward ? 'F' : 'B';
    result += std::to_string(micro_batch);
  }
  return result;
}

TEST(Schedule1F1B, RunsAheadByTheNumberOfStagesAfterIt) {
  const auto schedule = schedule_1f1b(3, 4);
  ASSERT_EQ(schedule.size(), 3U);
  EXPECT_EQ(text(schedule[0]), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text(schedule[1]), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text(schedule[2]), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(Schedule1F1B, FewerMicroBatchesThanStages) {
  const auto schedule = schedule_1f1b(4, 2);
  EXPECT_EQ(text(schedule[0]), "F0 F1 B0 B1");
  EXPECT_EQ(text(schedule[3]), "F0 B0 F1 B1");
}

TEST(Schedule1F1B, CanRunAndHoldsNoMoreThanItMustForAllSizes) {
  for (int64_t stages = 1; stages <= 8; ++stages) {
    for (int64_t micro_batches = 0; micro_batches <= 20; ++micro_batches) {
      const auto schedule = schedule_1f1b(stages, micro_batches);
      EXPECT_EQ(problem_of(schedule, micro_batches), "") << stages << " stages, " << micro_batches << " micro-batches";
      for (int64_t stage = 0; stage < stages; ++stage)
        EXPECT_EQ(most_in_flight(schedule[static_cast<size_t>(stage)]), std::min(micro_batches, stages - stage));
      EXPECT_EQ(problem_of(schedule_forward(stages, micro_batches), micro_batches), "");
    }
  }
}

TEST(ProblemOf, NamesAStageThatWaitsForever) {
  // Stage 0 wants the backward of micro-batch 0 before it has sent micro-batch 1, which stage 1 wants first.
  const PipelineSchedule schedule = {
      {{Kind::forward, 0}, {Kind::backward, 0}, {Kind::forward, 1}, {Kind::backward, 1}},
      {{Kind::forward, 0}, {Kind::forward, 1}, {Kind::backward, 0}, {Kind::backward, 1}},
  };
  EXPECT_EQ(problem_of(schedule, 2), "stage 0 waits forever before the backward of micro-batch 0");
}

TEST(ProblemOf, NamesAMicroBatchThatIsLeftOutOrDoneTwice) {
  EXPECT_EQ(problem_of({{{Kind::forward, 0}, {Kind::backward, 0}}}, 2),
            "stage 0 does not run the forward of each of 2 micro-batches once");
  EXPECT_EQ(problem_of({{{Kind::forward, 0}, {Kind::backward, 0}, {Kind::backward, 0}}}, 1),
            "stage 0 does not run the backward of each of 1 micro-batches once");
}

TEST(ProblemOf, NamesABackwardBeforeItsForward) {
  EXPECT_EQ(problem_of({{{Kind::backward, 0}, {Kind::forward, 0}}}, 1),
            "stage 0 waits forever before the backward of micro-batch 0");
}

TEST(ProblemOf, NamesNeighboursThatDisagreeOnTheOrder) {
  const PipelineSchedule schedule = {{{Kind::forward, 0}, {Kind::forward, 1}},
                                     {{Kind::forward, 1}, {Kind::forward, 0}}};
  EXPECT_EQ(problem_of(schedule, 2), "stages 0 and 1 run their forwards in different orders");
}

TEST(StageSpan, SplitsLayersAsEvenlyAsCanBe) {
  EXPECT_EQ(stage_span(4, 0, 2), (std::pair<int64_t, int64_t>(0, 2)));
  EXPECT_EQ(stage_span(4, 1, 2), (std::pair<int64_t, int64_t>(2, 4)));
  EXPECT_EQ(stage_span(7, 0, 3), (std::pair<int64_t, int64_t>(0, 3)));
  EXPECT_EQ(stage_span(7, 1, 3), (std::pair<int64_t, int64_t>(3, 5)));
  EXPECT_EQ(stage_span(7, 2, 3), (std::pair<int64_t, int64_t>(5, 7)));
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

}  // namespace
}  // namespace modular
