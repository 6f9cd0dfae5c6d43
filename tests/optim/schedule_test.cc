// The learning rate of each step of a run.
#include "runtime/optim/options.h"

#include <gtest/gtest.h>

#include <cmath>

namespace modular {
namespace {

const Schedule kSchedule = {.lr = 1.0, .min_lr = 0.1, .warmup_steps = 4, .steps = 12};

TEST(Schedule, WarmUpRisesLinearlyFromAboveZero) {
  EXPECT_DOUBLE_EQ(kSchedule.at(0), 0.25);
  EXPECT_DOUBLE_EQ(kSchedule.at(1), 0.5);
  EXPECT_DOUBLE_EQ(kSchedule.at(3), 1.0);
}

TEST(Schedule, CosineFallsFromTheHighestRateToTheFloor) {
  EXPECT_DOUBLE_EQ(kSchedule.at(4), 1.0);
  EXPECT_DOUBLE_EQ(kSchedule.at(8), 0.55);
  EXPECT_GT(kSchedule.at(11), 0.1);
  EXPECT_DOUBLE_EQ(kSchedule.at(12), 0.1);
  EXPECT_DOUBLE_EQ(kSchedule.at(1000), 0.1);
}

TEST(Schedule, NoWarmUpBeginsAtTheHighestRate) {
  EXPECT_DOUBLE_EQ((Schedule{.lr = 2.0, .min_lr = 0.0, .warmup_steps = 0, .steps = 10}.at(0)), 2.0);
}

TEST(Schedule, AllWarmUpDoesNotDivideByZero) {
  const Schedule all_warmup = {.lr = 1.0, .min_lr = 0.0, .warmup_steps = 4, .steps = 4};
  EXPECT_DOUBLE_EQ(all_warmup.at(3), 1.0);
  EXPECT_DOUBLE_EQ(all_warmup.at(4), 0.0);
}

TEST(Schedule, OtherKindsFollowTheirFormulas) {
  Schedule schedule = kSchedule;
  schedule.kind = "linear";
  EXPECT_DOUBLE_EQ(schedule.at(4), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(6), 0.775);
  EXPECT_DOUBLE_EQ(schedule.at(12), 0.1);
  schedule.kind = "constant";
  EXPECT_DOUBLE_EQ(schedule.at(3), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(1000), 1.0);
  schedule.kind = "wsd";
  schedule.decay_steps = 4;
  EXPECT_DOUBLE_EQ(schedule.at(8), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(10), 0.55);
  EXPECT_DOUBLE_EQ(schedule.at(12), 0.1);
  schedule.kind = "inverse-sqrt";
  schedule.min_lr = 0.0;
  EXPECT_DOUBLE_EQ(schedule.at(4), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(12), std::sqrt(4.0 / 12.0));
}

TEST(Schedule, KnowsWhichKindsDependOnTheNumberOfSteps) {
  for (const std::string_view kind : schedule_kinds()) {
    Schedule schedule = kSchedule;
    schedule.kind = kind;
    schedule.decay_steps = 4;
    Schedule longer = schedule;
    longer.steps = 20;
    bool differs = false;
    for (int64_t step = 0; step < schedule.steps; ++step) differs = differs || schedule.at(step) != longer.at(step);
    EXPECT_EQ(schedule.depends_on_steps(), differs) << kind;
  }
}

}  // namespace
}  // namespace modular
