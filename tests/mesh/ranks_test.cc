// The helper of all multi-process tests: its report when a rank fails.
#include "tests/support/ranks.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

#include "runtime/mesh/status.h"

namespace modular {
namespace {

using testing::run_ranks;

TEST(RunRanks, ReturnsTheReportsByRank) {
  const auto reports =
      run_ranks(3, [](const Environment& environment) { return testing::Report{1.0 / 3, environment.rank + 0.5}; });
  ASSERT_EQ(reports.size(), 3U);
  for (size_t rank = 0; rank < reports.size(); ++rank)
    EXPECT_EQ(reports[rank], (testing::Report{1.0 / 3, static_cast<double>(rank) + 0.5}));
}

TEST(RunRanks, MayBeCalledSeveralTimes) {
  const auto first = run_ranks(1, [](const Environment&) { return testing::Report{1.0}; });
  const auto second = run_ranks(2, [](const Environment&) { return testing::Report{2.0}; });
  EXPECT_EQ(first[0][0], 1.0);
  EXPECT_EQ(second[1][0], 2.0);
}

TEST(RunRanks, ReportsAnExceptionOfARank) {
  EXPECT_NONFATAL_FAILURE(run_ranks(1, [](const Environment&) { throw std::runtime_error("out of luck"); }),
                          "rank 0 threw: out of luck");
}

TEST(RunRanks, ReportsAKilledRank) {
  EXPECT_NONFATAL_FAILURE(run_ranks(1, [](const Environment&) { kill(getpid(), SIGKILL); }),
                          "rank 0 of 1 was killed by signal Killed");
}

TEST(RunRanks, KillsARankThatHangsAndReportsItsPhase) {
  EXPECT_NONFATAL_FAILURE(run_ranks(
                              1,
                              [](const Environment&) {
                                set_phase("waiting for nothing");
                                for (;;) pause();
                              },
                              std::chrono::seconds(3)),
                          "hung in phase \"waiting for nothing\"");
}

}  // namespace
}  // namespace modular
