// Sampled values: within range, with the right distribution, and deterministic.
#include "runtime/search/space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace modular {
namespace {

constexpr int64_t kTrials = 4000;

std::vector<double> sampled(const Dimension& dimension) {
  std::vector<double> values;
  for (int64_t trial = 0; trial < kTrials; ++trial)
    values.push_back(std::stod(sample_config({dimension}, /*seed=*/1, trial)[0].second));
  return values;
}

double fraction_below(const std::vector<double>& values, double limit) {
  return static_cast<double>(std::ranges::count_if(values, [&](double value) { return value < limit; })) /
         static_cast<double>(values.size());
}

TEST(Space, SamplesARangeUniformly) {
  const auto values = sampled({.key = "optim.lr", .low = 2.0, .high = 6.0});
  EXPECT_GE(std::ranges::min(values), 2.0);
  EXPECT_LE(std::ranges::max(values), 6.0);
  EXPECT_NEAR(fraction_below(values, 3.0), 0.25, 0.03);
}

TEST(Space, SamplesALogRangeUniformlyOverPowersOfTen) {
  const auto values = sampled({.key = "optim.lr", .low = 1e-6, .high = 1e-2, .log = true});
  EXPECT_GE(std::ranges::min(values), 1e-6);
  EXPECT_LE(std::ranges::max(values), 1e-2);
  for (const double limit : {1e-5, 1e-4, 1e-3})
    EXPECT_NEAR(fraction_below(values, limit), (6 + std::log10(limit)) / 4, 0.03);
}

TEST(Space, SamplesIntegersStepsAndChoicesUniformly) {
  for (const Dimension& dimension : {Dimension{.key = "a", .low = 3, .high = 6, .integral = true},
                                     Dimension{.key = "a", .low = 0.5, .high = 2.0, .step = 0.5},
                                     Dimension{.key = "a", .choices = {"1", "2", "7", "9"}}}) {
    std::map<double, int64_t> counts;
    for (const double value : sampled(dimension)) ++counts[value];
    EXPECT_EQ(counts.size(), 4u);
    for (const auto& [value, count] : counts) EXPECT_NEAR(static_cast<double>(count), kTrials / 4.0, 120.0) << value;
  }
  const auto integers = sampled({.key = "a", .low = 1, .high = 1000, .log = true, .integral = true});
  EXPECT_EQ(std::ranges::min(integers), 1.0);
  EXPECT_NEAR(fraction_below(integers, 31.5), 0.55, 0.04);
}

TEST(Space, AValueDependsOnSeedAndTrialOnly) {
  const std::vector<Dimension> space = {{.key = "a", .low = 0.0, .high = 1.0}, {.key = "b", .low = 0.0, .high = 1.0}};
  EXPECT_EQ(sample_config(space, 1, 7), sample_config(space, 1, 7));
  std::set<std::string> values;
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (int64_t trial = 0; trial < 20; ++trial)
      for (const auto& [key, value] : sample_config(space, seed, trial)) values.insert(value);
  EXPECT_EQ(values.size(), 800u) << "all values differ";
}

TEST(Space, WritesFloatsWithADecimalPoint) {
  EXPECT_EQ((Dimension{.key = "a", .low = 2.0, .high = 2.0}.at(0.3)), "2.0");
  EXPECT_EQ((Dimension{.key = "a", .low = 2, .high = 2, .integral = true}.at(0.3)), "2");
}

TEST(Space, AGridEnumeratesAllCombinationsLastDimensionFastest) {
  const std::vector<Dimension> space = {{.key = "a", .choices = {"'x'", "'y'"}},
                                        {.key = "b", .low = 1, .high = 3, .integral = true}};
  ASSERT_EQ(grid_size(space), 6);
  std::string all;
  for (int64_t point = 0; point < 6; ++point)
    for (const auto& [key, value] : grid_point(space, point)) all += value;
  EXPECT_EQ(all, "'x'1'x'2'x'3'y'1'y'2'y'3");
  EXPECT_EQ(grid_size({{.key = "a", .low = 0.0, .high = 1.0}}), 0);
  EXPECT_EQ(grid_size({{.key = "a", .low = 0.0, .high = 1.0, .step = 0.1}}), 11);
}

}  // namespace
}  // namespace modular
