// Pipeline schedules, compared with the closed forms of their papers, and the validation that every schedule passes
// before a rank starts.
#include "runtime/parallel/pipeline/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/parallel/pipeline/known_schedules.h"

namespace modular {
namespace {

using Kind = PipelineAction::Kind;

/// "0F0 0F1 0B0 …"
std::string text(const std::vector<PipelineAction>& actions) {
  std::string result;
  for (const PipelineAction& action : actions) {
    if (!result.empty()) result += ' ';
    result += format_cell(action);
  }
  return result;
}

/// One stage per rank.
PipelineSchedule one_each(std::vector<std::vector<PipelineAction>> ranks) {
  return {looped_stages(static_cast<int64_t>(ranks.size()), 1), std::move(ranks)};
}

struct Sizes {
  int64_t ranks, stages_per_rank, micro_batches;
};

/// Calls `check` with sizes that the schedule supports.
template <class Check>
void for_all_sizes(const KnownSchedule& known, Check&& check) {
  for (const int64_t ranks : {2, 3, 4, 5, 8})
    for (int64_t stages = known.min_stages; stages <= std::min(known.max_stages, int64_t{4}); ++stages)
      for (const int64_t micro_batches : {1, 2, 3, 4, 6, 8, 9, 12, 15, 16, 24, 40}) {
        if (!known.error(ranks, stages, micro_batches).empty()) continue;
        SCOPED_TRACE(std::string(known.name) + ", " + std::to_string(ranks) + " ranks, " + std::to_string(stages) +
                     " stages each, " + std::to_string(micro_batches) + " micro-batches");
        check(known.make(ranks, stages, micro_batches), Sizes{ranks, stages, micro_batches});
      }
}

const KnownSchedule& known(std::string_view name) {
  return *std::ranges::find(known_schedules(), name, &KnownSchedule::name);
}

TEST(Schedule1F1B, HasAWarmupForwardPerLaterRank) {
  const auto schedule = schedule_1f1b(3, 4);
  ASSERT_EQ(schedule.ranks.size(), 3U);
  EXPECT_EQ(text(schedule.ranks[0]), "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
  EXPECT_EQ(text(schedule.ranks[1]), "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3");
  EXPECT_EQ(text(schedule.ranks[2]), "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3");
}

TEST(Schedule1F1B, FewerMicroBatchesThanRanks) {
  const auto schedule = schedule_1f1b(4, 2);
  EXPECT_EQ(text(schedule.ranks[0]), "0F0 0F1 0B0 0B1");
  EXPECT_EQ(text(schedule.ranks[3]), "3F0 3B0 3F1 3B1");
}

TEST(ScheduleInterleaved, PassesGroupsOfMicroBatchesThroughEachStage) {
  const auto schedule = schedule_interleaved(2, 2, 4);
  EXPECT_EQ(text(schedule.ranks[0]), "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  EXPECT_EQ(text(schedule.ranks[1]), "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
}

TEST(ScheduleInterleavedZeroBubble, WithOneStagePerRankIsH1) {
  const auto schedule = schedule_interleaved_zero_bubble(2, 1, 3);
  EXPECT_EQ(text(schedule.ranks[0]), "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2");
  EXPECT_EQ(text(schedule.ranks[1]), "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2");
}

TEST(ScheduleZbv, TurnsAroundOnTheLastRank) {
  const auto schedule = schedule_zbv(2, 3);
  EXPECT_EQ(schedule.stage_ranks, (std::vector<int64_t>{0, 1, 1, 0}));
  EXPECT_EQ(text(schedule.ranks[0]), "0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0I2 0W2");
  EXPECT_EQ(text(schedule.ranks[1]), "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2");
}

class KnownSchedules : public ::testing::TestWithParam<const char*> {};

TEST_P(KnownSchedules, AreValidForAllSizes) {
  for_all_sizes(known(GetParam()), [](const PipelineSchedule& schedule, const Sizes& sizes) {
    EXPECT_EQ(find_problem(schedule, sizes.micro_batches), "");
    EXPECT_EQ(static_cast<int64_t>(schedule.ranks.size()), sizes.ranks);
    EXPECT_EQ(schedule.stages(), sizes.ranks * sizes.stages_per_rank);
    EXPECT_EQ(
        find_problem(schedule_forward(schedule.stage_ranks, sizes.ranks, sizes.micro_batches), sizes.micro_batches,
                     /*trains=*/false),
        "");
  });
}

bool is_cut(std::string_view name) { return name == "interleaved-zero-bubble" || name == "zbv" || name == "dualpipev"; }

/// Whether there are enough micro-batches for the closed forms below.
bool is_full(std::string_view name, const Sizes& sizes) {
  if (name == "looped-bfs" || name == "interleaved-zero-bubble") return sizes.micro_batches >= sizes.ranks;
  return name != "zbv" || sizes.micro_batches >= 2 * sizes.ranks - 1;
}

/// The bubble: idle fraction of a step in which a backward takes twice as long as a forward, and each of its halves as
/// long as a forward.
double expected_idle_share(std::string_view name, const Sizes& sizes) {
  const auto waits = static_cast<double>(sizes.ranks - 1);
  const auto forwards = static_cast<double>(sizes.stages_per_rank * sizes.micro_batches);
  return waits / ((is_cut(name) ? 3.0 : 1.0) * forwards + waits);
}

int64_t expected_stored(std::string_view name, const Sizes& sizes, int64_t rank) {
  const auto [ranks, stages, micro_batches] = sizes;
  if (name == "gpipe" || name == "looped-bfs") return stages * micro_batches;
  if (name == "1f1b") return std::min(micro_batches, ranks - rank);
  if (name == "interleaved") return std::min(stages * micro_batches, (stages - 1) * ranks + 2 * (ranks - 1 - rank) + 1);
  return stages * ranks + (name == "dualpipev" ? 1 : 0);
}

TEST_P(KnownSchedules, MatchTheirClosedForms) {
  const std::string_view name = GetParam();
  for_all_sizes(known(name), [&](const PipelineSchedule& schedule, const Sizes& sizes) {
    const Simulation simulated = simulate(schedule);
    if (!is_full(name, sizes)) return;
    EXPECT_NEAR(simulated.idle_fraction, expected_idle_share(name, sizes), 1e-12);
    for (int64_t rank = 0; rank < sizes.ranks; ++rank)
      EXPECT_EQ(simulated.most_stored[static_cast<size_t>(rank)], expected_stored(name, sizes, rank))
          << "rank " << rank;
  });
}

TEST_P(KnownSchedules, HaveASmallerBubbleThan1F1BWithSplitBackwards) {
  const std::string_view name = GetParam();
  if (!is_cut(name)) return;
  for (const ActionTimes& times : {ActionTimes{1.0, 1.0, 1.0, 2.0}, ActionTimes{1.0, 1.3, 0.7, 2.0}})
    for_all_sizes(known(name), [&](const PipelineSchedule& schedule, const Sizes& sizes) {
      if (!is_full(name, sizes)) return;
      EXPECT_LT(simulate(schedule, times).idle_fraction,
                simulate(schedule_1f1b(sizes.ranks, sizes.micro_batches), times).idle_fraction);
    });
}

INSTANTIATE_TEST_SUITE_P(Names, KnownSchedules,
                         ::testing::Values("gpipe", "1f1b", "interleaved", "looped-bfs", "interleaved-zero-bubble",
                                           "zbv", "dualpipev"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(ScheduleForward, PassesAllStagesOfAnyPlacement) {
  for (const std::vector<int64_t>& stage_ranks :
       {std::vector<int64_t>{0, 1, 2}, {0, 1, 0, 1}, {0, 1, 1, 0}, {1, 1, 0, 0}})
    for (int64_t micro_batches = 0; micro_batches < 9; ++micro_batches)
      EXPECT_EQ(
          find_problem(schedule_forward(stage_ranks, 1 + std::ranges::max(stage_ranks), micro_batches), micro_batches,
                       /*trains=*/false),
          "");
}

TEST(Simulation, UsesTheTimesOfTheActions) {
  // 0F0 1F0 1B0 0B0, one after the other.
  const Simulation simulated = simulate(schedule_1f1b(2, 1), {.forward = 3.0, .backward = 5.0});
  EXPECT_DOUBLE_EQ(simulated.time, 16.0);
  EXPECT_DOUBLE_EQ(simulated.idle_fraction, 0.5);
  EXPECT_EQ(simulated.starts, (std::vector<std::vector<double>>{{0.0, 11.0}, {3.0, 6.0}}));
}

TEST(FindProblem, NamesAStageThatWaitsForever) {
  // Stage 0 waits for the backward of micro-batch 0 before it has sent micro-batch 1, for which stage 1 waits first.
  const PipelineSchedule schedule = one_each({
      {{Kind::forward, 0, 0}, {Kind::backward, 0, 0}, {Kind::forward, 0, 1}, {Kind::backward, 0, 1}},
      {{Kind::forward, 1, 0}, {Kind::forward, 1, 1}, {Kind::backward, 1, 0}, {Kind::backward, 1, 1}},
  });
  EXPECT_EQ(find_problem(schedule, 2), "stage 0 waits forever before the backward of micro-batch 0");
}

TEST(FindProblem, NamesAMissingOrDuplicateMicroBatch) {
  EXPECT_EQ(find_problem(one_each({{{Kind::forward, 0, 0}, {Kind::backward, 0, 0}}}), 2),
            "stage 0 does not run the forward of each of 2 micro-batches once");
  EXPECT_EQ(find_problem(one_each({{{Kind::forward, 0, 0}, {Kind::backward, 0, 0}, {Kind::backward, 0, 0}}}), 1),
            "stage 0 does not run the backward of each of 1 micro-batches once");
  for (const std::vector<PipelineAction>& actions :
       {std::vector<PipelineAction>{{Kind::forward, 0, 0}, {Kind::backward_input, 0, 0}},
        {{Kind::forward, 0, 0}, {Kind::backward_weight, 0, 0}},
        {{Kind::forward, 0, 0}, {Kind::backward_input, 0, 0}, {Kind::backward_weight, 0, 0}, {Kind::backward, 0, 0}}})
    EXPECT_EQ(find_problem(one_each({actions}), 1),
              "stage 0 does not run the backward of each of 1 micro-batches once, as B or as I and W");
}

TEST(FindProblem, AcceptsForwardOnlySchedulesOnlyForEvaluation) {
  const PipelineSchedule forwards = schedule_forward({0, 1}, 2, 2);
  EXPECT_EQ(find_problem(forwards, 2, /*trains=*/false), "");
  EXPECT_EQ(find_problem(forwards, 2), "stage 0 does not run the backward of each of 2 micro-batches once");
  EXPECT_EQ(find_problem(schedule_gpipe(2, 2), 2, /*trains=*/false),
            "stage 0 runs a backward in a forward-only schedule");
}

TEST(FindProblem, NamesAnActionBeforeItsDependency) {
  EXPECT_EQ(find_problem(one_each({{{Kind::backward, 0, 0}, {Kind::forward, 0, 0}}}), 1),
            "stage 0 waits forever before the backward of micro-batch 0");
  EXPECT_EQ(
      find_problem(one_each({{{Kind::forward, 0, 0}, {Kind::backward_weight, 0, 0}, {Kind::backward_input, 0, 0}}}), 1),
      "stage 0 waits forever before the backward of weights of micro-batch 0");
}

TEST(FindProblem, NamesRanksThatDisagreeOnTheOrder) {
  const PipelineSchedule forwards =
      one_each({{{Kind::forward, 0, 0}, {Kind::forward, 0, 1}}, {{Kind::forward, 1, 1}, {Kind::forward, 1, 0}}});
  EXPECT_EQ(find_problem(forwards, 2, /*trains=*/false),
            "rank 0 sends the activations of stage 0 and micro-batch 0 where rank 1 expects those of stage 0 and "
            "micro-batch 1");
  PipelineSchedule backwards = schedule_gpipe(2, 2);
  std::swap(backwards.ranks[0][2], backwards.ranks[0][3]);
  EXPECT_EQ(find_problem(backwards, 2),
            "rank 1 sends the gradients of stage 1 and micro-batch 0 where rank 0 expects those of stage 1 and "
            "micro-batch 1");
}

TEST(FindProblem, NamesMisplacedStagesAndActions) {
  EXPECT_EQ(find_problem({{0, 0}, {{}, {}}}, 0), "rank 1 has no stage");
  EXPECT_EQ(find_problem({{0, 2}, {{}, {}}}, 0), "stage 1 is on rank 2 of 2");
  EXPECT_EQ(find_problem({{0, 1}, {{{Kind::forward, 1, 0}}, {}}}, 1),
            "1F0 is listed for rank 0, but its stage is on rank 1");
  EXPECT_EQ(find_problem({{0}, {{{Kind::forward, 1, 0}}}}, 1), "1F0 names a stage that does not exist");
  EXPECT_EQ(find_problem({{0}, {{{Kind::forward, 0, 1}}}}, 1),
            "0F1 names a micro-batch that a step of 1 does not have");
}

}  // namespace
}  // namespace modular
