// Conditions under which a rank counts as frozen.
#include "runtime/launch/rank.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstring>
#include <fstream>

#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using std::chrono::milliseconds;

class FrozenRankTest : public ::testing::Test {
 protected:
  FrozenRankTest() { rank_.start({"sleep", "60"}, {}); }
  ~FrozenRankTest() override {
    rank_.kill_now();
    rank_.wait();
  }

  /// Writes the rank's status file: `beats` so far; the rank is frozen after `seconds` without another.
  void write_status(uint64_t beats, uint64_t seconds) {
    std::array<char, 528> page{};
    std::memcpy(page.data() + 512, &beats, sizeof(beats));
    std::memcpy(page.data() + 520, &seconds, sizeof(seconds));
    std::ofstream(folder_.path() / "rank0.status", std::ios::binary).write(page.data(), page.size());
  }

  TemporaryFolder folder_;
  Rank rank_{0, folder_.path(), Rank::Output::log_only};
};

TEST_F(FrozenRankTest, AfterTheConfiguredTimeWithoutABeat) {
  for (uint64_t beats = 1; beats < 9; ++beats) {
    write_status(beats, 2);
    rank_.check_frozen(milliseconds(500));
  }
  for (int i = 0; i < 3; ++i) rank_.check_frozen(milliseconds(500));
  EXPECT_FALSE(rank_.frozen());
  rank_.check_frozen(milliseconds(500));
  EXPECT_TRUE(rank_.frozen());
  EXPECT_NE(rank_.summary(2, {}).find("no sign of life for 2 s (parallel.frozen_seconds)"), std::string::npos);
}

TEST_F(FrozenRankTest, NeverBeforeItsFirstBeatOrWithATimeoutOfZero) {
  for (int i = 0; i < 100; ++i) rank_.check_frozen(milliseconds(1000));
  write_status(7, 0);
  for (int i = 0; i < 100; ++i) rank_.check_frozen(milliseconds(1000));
  EXPECT_FALSE(rank_.frozen());
}

TEST_F(FrozenRankTest, NotForTheTimeBeforeItsFirstBeat) {
  for (int i = 0; i < 100; ++i) rank_.check_frozen(milliseconds(1000));
  write_status(1, 5);
  rank_.check_frozen(milliseconds(500));
  EXPECT_FALSE(rank_.frozen());
}

TEST_F(FrozenRankTest, NotForTheTimeThatTheLauncherItselfWasStopped) {
  write_status(7, 5);
  rank_.check_frozen(milliseconds(500));
  rank_.check_frozen(std::chrono::hours(1));
  EXPECT_FALSE(rank_.frozen());
}

TEST_F(FrozenRankTest, NotWhileADebuggerHoldsIt) {
  write_status(7, 1);
  ASSERT_EQ(ptrace(PTRACE_SEIZE, rank_.process(), nullptr, nullptr), 0);
  for (int i = 0; i < 10; ++i) rank_.check_frozen(milliseconds(500));
  EXPECT_FALSE(rank_.frozen());
}

TEST_F(FrozenRankTest, NotIfItsProcessIsContinuedWithinASecond) {
  ASSERT_EQ(kill(rank_.process(), SIGSTOP), 0);
  siginfo_t info = {};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(rank_.process()), &info, WSTOPPED | WNOWAIT), 0);
  rank_.check_frozen(milliseconds(500));
  rank_.check_frozen(milliseconds(500));
  ASSERT_EQ(kill(rank_.process(), SIGCONT), 0);
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(rank_.process()), &info, WCONTINUED | WNOWAIT), 0);
  for (int i = 0; i < 10; ++i) rank_.check_frozen(milliseconds(500));
  EXPECT_FALSE(rank_.frozen());
  ASSERT_EQ(kill(rank_.process(), SIGSTOP), 0);
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(rank_.process()), &info, WSTOPPED | WNOWAIT), 0);
  for (int i = 0; i < 3; ++i) rank_.check_frozen(milliseconds(500));
  EXPECT_TRUE(rank_.frozen());
}

}  // namespace
}  // namespace modular
