// Steps that others have measured and published are predicted; the table is printed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/advise/ranking.h"
#include "tests/advise/published.h"

namespace modular::testing {
namespace {

/// Products in eight bits, and sums over tp that torchtitan's AsyncTP hides, are not of this runtime.
bool is_foreign(const PublishedTable& table, const PublishedStep& step) {
  return table.devices.find("Float8") != std::string::npos && step.layout.tp > 1;
}

TEST(Published, StepsArePredictedWithOneConstantOfATable) {
  fmt::print("| devices | source | model and mesh | published | predicted | error |\n|---|---|---|---|---|---|\n");
  for (const PublishedTable& table : published_tables()) {
    const double attained = fitted_fraction(table);
    for (const PublishedStep& step : table.steps) {
      const double predicted = predicted_seconds(table, step, attained), error = predicted / step.seconds - 1.0;
      const bool is_fitted = &step == &table.steps.front();
      fmt::print("| {} | {} | {} | {:.2f} s | {:.2f} s | {} |\n", table.devices, step.source, step.name, step.seconds,
                 predicted,
                 is_fitted ? fmt::format("fitted: {:.3f}", attained) : fmt::format("{:+.1f} %", 100 * error));
      EXPECT_LT(std::abs(error), is_fitted ? 1e-6 : is_foreign(table, step) ? 0.35 : 0.12) << step.name;
    }
  }
}

// Which of two meshes of one table is faster is what advice is asked for.
TEST(Published, OrderOfSchedulesAndRecomputationIsThatOfTheMeasurements) {
  for (const PublishedTable& table : published_tables()) {
    const double attained = fitted_fraction(table);
    for (const PublishedStep& one : table.steps)
      for (const PublishedStep& other : table.steps) {
        if (one.sizes.layers != other.sizes.layers || one.layout.devices() != other.layout.devices()) continue;
        if (one.seconds > 0.95 * other.seconds || one.tokens * one.rows != other.tokens * other.rows) continue;
        EXPECT_LT(predicted_seconds(table, one, attained), predicted_seconds(table, other, attained))
            << one.name << " and " << other.name;
      }
  }
}

// Users of SageMaker told of 30 hours on one device that became a little more than 5 on eight. Of which model is not
// known; here it is a BERT-large on the eight V100 of a p3.16xlarge, whose gradients' sums hide behind the backward.
TEST(Published, ThirtyHoursBecomeAboutFiveOnEightDevices) {
  const ModelProfile bert = decoder_profile({24, 1024, 4096, 16, 16, 30522, false, true}, 384, {{"none", 0.0}}, true);
  Cluster v100{
      .per_node = 8, .memory = 16 * 0x1p30, .link = 60e9, .flops = 125e12, .attained = 0.4, .memory_speed = 9e11};
  PipelineClock clock;
  const double eight = estimate(bert, {.dp_replicate = 8}, 64, v100, clock).time.total;
  v100.per_node = 1;
  const double one = estimate(bert, {.micro_batches = 8}, 64, v100, clock).time.total;
  const double hours = 30.0 * eight / one;
  fmt::print("30 h on one device: {:.2f} h on eight are predicted, a little more than 5 h are told\n", hours);
  EXPECT_GT(hours, 30.0 / 8.0);
  EXPECT_LT(hours, 5.5);
}

}  // namespace
}  // namespace modular::testing
