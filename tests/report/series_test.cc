// Downsampled curves keep spikes, both ends and gaps.
#include "runtime/report/run_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace modular {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Series noise(int64_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(1.0, 2.0);
  Series series{.name = "loss"};
  for (int64_t step = 1; step <= count; ++step) series.add(step, uniform(random));
  return series;
}

TEST(Series, KeepsAllPointsOfShortSeries) {
  const Series series = noise(100);
  const Thinned all = thinned(series, 100);
  EXPECT_EQ(all.points.steps, series.steps);
  EXPECT_EQ(all.points.values, series.values);
  EXPECT_TRUE(all.means.steps.empty());
}

TEST(Series, DownsamplingKeepsBothEndsAndTheExtremesOfEachBucket) {
  for (const int64_t count : {101, 199, 1000, 100003}) {
    const Series series = noise(count);
    const Thinned thin = thinned(series, 100);
    EXPECT_LE(thin.points.steps.size(), 100u);
    EXPECT_GT(thin.points.steps.size(), 50u);
    EXPECT_TRUE(std::ranges::is_sorted(thin.points.steps));
    EXPECT_EQ(thin.points.steps.front(), 1);
    EXPECT_EQ(thin.points.steps.back(), count);
    for (size_t i = 0; i < thin.points.steps.size(); ++i)
      EXPECT_EQ(thin.points.values[i], series.values[static_cast<size_t>(thin.points.steps[i] - 1)]);
    auto begin = series.values.begin() + 1;  // start of the bucket that ends at the mean's step
    for (size_t i = 0; i < thin.means.steps.size(); ++i) {
      const auto end = series.values.begin() + thin.means.steps[i];
      for (const double extreme : {*std::min_element(begin, end), *std::max_element(begin, end)})
        EXPECT_EQ(std::ranges::count(thin.points.values, extreme), 1) << "of " << count << " until step " << end[-1];
      double sum = 0.0;
      for (auto value = begin; value != end; ++value) sum += *value;
      EXPECT_NEAR(thin.means.values[i], sum / static_cast<double>(end - begin), 1e-12);
      begin = end;
    }
    EXPECT_EQ(begin, series.values.end() - 1) << "every bucket was checked";
  }
}

TEST(Series, KeepsASpikeOfOneStepAmongAMillion) {
  Series series = noise(1000000);
  series.values[123456] = 100.0;
  series.values[777777] = -100.0;
  const Thinned thin = thinned(series, 2000);
  EXPECT_LE(thin.points.steps.size(), 2000u);
  EXPECT_EQ(
      thin.points.steps[static_cast<size_t>(std::ranges::max_element(thin.points.values) - thin.points.values.begin())],
      123457);
  EXPECT_EQ(
      thin.points.steps[static_cast<size_t>(std::ranges::min_element(thin.points.values) - thin.points.values.begin())],
      777778);
}

TEST(Series, KeepsAStepWithoutAFiniteValueAsAGap) {
  Series series = noise(10000);
  series.values[5000] = kNan;
  std::fill(series.values.begin() + 7000, series.values.begin() + 8000, kNan);
  const Thinned thin = thinned(series, 200);
  EXPECT_LE(thin.points.steps.size(), 200u);
  const auto at = std::ranges::find(thin.points.steps, 5001);
  ASSERT_NE(at, thin.points.steps.end());
  EXPECT_TRUE(std::isnan(thin.points.values[static_cast<size_t>(at - thin.points.steps.begin())]));
  EXPECT_TRUE(std::ranges::any_of(thin.means.values, [](double mean) { return std::isnan(mean); }))
      << "a bucket without finite values has no mean";
}

TEST(Series, InfiniteValuesBecomeNan) {
  Series series;
  series.add(1, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(series.values.front()));
}

}  // namespace
}  // namespace modular
