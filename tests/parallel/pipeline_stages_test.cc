// How layers are divided between stages, and which settings of a pipeline are refused.
#include "runtime/parallel/pipeline_stages.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace modular
