// The learning rate of each step of a run.
#include "runtime/optim/schedule.h"

#include <gtest/gtest.h>

namespace modular {
namespace {

constexpr Schedule kSchedule = {.lr = 1.0, .min_lr = 0.1, .warmup_steps = 4, .steps = 12};

TEST(Schedule, WarmUpRisesLinearlyAndTheFirstStepLearns) {
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

TEST(Schedule, RunOfWarmUpOnlyNeverDividesByZero) {
  constexpr Schedule all_warmup = {.lr = 1.0, .min_lr = 0.0, .warmup_steps = 4, .steps = 4};
  EXPECT_DOUBLE_EQ(all_warmup.at(3), 1.0);
  EXPECT_DOUBLE_EQ(all_warmup.at(4), 0.0);
}

}  // namespace
}  // namespace modular
