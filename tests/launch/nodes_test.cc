// Multi-node jobs: one launcher per machine, here all on the loopback interface.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/launch/process.h"
#include "tests/launch/launch_fixture.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

using testing::await_output;
using testing::Ended;
using testing::free_port;
using testing::Started;

class NodesTest : public LaunchTest {
 protected:
  /// Starts the launcher of machine `rank` of `nodes_`, with two ranks unless `flags` overrides that.
  Started node(int rank, const std::string& way, const std::string& misbehaving_rank,
               const std::vector<std::string>& flags = {}) {
    std::vector<std::string> arguments = {"--nproc-per-node", "2",
                                          "--nnodes",         std::to_string(nodes_),
                                          "--node-rank",      std::to_string(rank),
                                          "--master-addr",    "127.0.0.1",
                                          "--master-port",    port_};
    arguments.insert(arguments.end(), restarts_.begin(), restarts_.end());
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.insert(arguments.end(), {way, misbehaving_rank});
    return probe(arguments);
  }
  static bool has(const Ended& ended, const std::string& text) { return ended.output.find(text) != std::string::npos; }

  int nodes_ = 2;
  std::vector<std::string> restarts_;
  const std::string port_ = std::to_string(free_port());
};

TEST_F(NodesTest, RejectsAPortInUse) {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.port = 0;
  const c10d::TCPStore taken("127.0.0.1", options);
  const Ended ended = end(probe({"--nproc-per-node", "2", "--nnodes", "2", "--master-addr", "127.0.0.1",
                                 "--master-port", std::to_string(taken.getPort()), "work", "0"}));
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.last(0).find("modrun: node 0 cannot listen on port "), 0U) << ended.output;
}

TEST_F(NodesTest, TwoLaunchersRunOneJob) {
  const Started first = node(0, "work", "0"), second = node(1, "work", "0");
  const Ended first_end = end(first), second_end = end(second);
  EXPECT_EQ(first_end.status, 0) << first_end.output;
  EXPECT_EQ(second_end.status, 0) << second_end.output;
  EXPECT_NE(first_end.output.find("rank 0 of 4 is up"), std::string::npos) << first_end.output;
}

TEST_F(NodesTest, AFailureOnOneNodeIsTheLastLineOnBoth) {
  const Started first = node(0, "throw", "3"), second = node(1, "throw", "3");
  const Ended first_end = end(first), second_end = end(second);
  EXPECT_NE(first_end.status, 0);
  EXPECT_NE(second_end.status, 0);
  EXPECT_EQ(first_end.last(0), "  why:   the data file is cut off") << first_end.output;
  EXPECT_EQ(second_end.last(0), "  why:   the data file is cut off") << second_end.output;
  EXPECT_EQ(second_end.last(3), "modrun: rank 3 of 4 failed; the job was stopped") << second_end.output;
}

TEST_F(NodesTest, TextOfAnotherNodeCannotCommandTheTerminal) {
  const Started first = node(0, "throw-escapes", "3"), second = node(1, "throw-escapes", "3");
  const Ended first_end = end(first);
  end(second);
  EXPECT_EQ(first_end.last(0), "  why:   ?[2Jcleared") << first_end.output;
}

TEST_F(NodesTest, BothStartTheirRanksAgain) {
  restarts_ = {"--max-restarts", "1"};
  const Started first = node(0, "throw-once", "3"), second = node(1, "throw-once", "3");
  const Ended first_end = end(first), second_end = end(second);
  EXPECT_EQ(first_end.status, 0) << first_end.output;
  EXPECT_EQ(second_end.status, 0) << second_end.output;
}

TEST_F(NodesTest, ASignalEndsALauncherWhileNodeZeroDoesNotAnswer) {
  const int mute = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(port_)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(mute, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(mute, 8), 0);
  const Started run = node(1, "work", "0");
  pollfd event = {mute, POLLIN, 0};
  ASSERT_EQ(poll(&event, 1, 60000), 1) << "no connection";
  kill(run.pid, SIGINT);
  const Ended ended = end(run);
  EXPECT_EQ(ended.status, 128 + SIGINT) << ended.output;
  close(mute);
}

TEST_F(NodesTest, AllOthersNameAKilledLauncher) {
  nodes_ = 3;
  for (int victim = 0; victim < 3; ++victim) {
    std::vector<Started> launchers;
    for (int rank = 0; rank < 3; ++rank) launchers.push_back(node(rank, "hang", "-1"));
    await_output(launchers[0], "is up");
    kill(launchers[static_cast<size_t>(victim)].pid, SIGKILL);
    for (int rank = 0; rank < 3; ++rank) {
      const Ended ended = end(launchers[static_cast<size_t>(rank)]);
      EXPECT_NE(ended.status, 0);
      if (rank == victim) continue;
      EXPECT_TRUE(has(ended, fmt::format("modrun: node {} (", victim))) << ended.output;
      EXPECT_TRUE(has(ended, " is gone: its launcher ended without reporting why; the job was stopped"))
          << ended.output;
    }
  }
}

TEST_F(NodesTest, CurrentAndLaterMembersNameAMachineLostBeforeAllHaveJoined) {
  nodes_ = 3;
  const Started first = node(0, "work", "0"), second = node(1, "work", "0");
  await_output(first, "waiting for node 2 of 3");
  kill(second.pid, SIGKILL);
  await_output(first, "modrun: node 1 (");
  const Ended late = end(node(2, "work", "0")), ended = end(first);
  end(second);
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(late.status, 2);
  EXPECT_LT(late.seconds, 10.0);
  EXPECT_TRUE(has(late, "modrun: node 1 (")) << late.output;
}

TEST_F(NodesTest, WithRestartsAnyLostMachineCanRejoin) {
  restarts_ = {"--max-restarts", "1"};
  nodes_ = 3;
  for (int victim = 0; victim < 3; ++victim) {
    std::vector<Started> launchers;
    for (int rank = 0; rank < 3; ++rank) launchers.push_back(node(rank, "hang-once", "-1"));
    await_output(launchers[0], "is up");
    kill(launchers[static_cast<size_t>(victim)].pid, SIGKILL);
    EXPECT_EQ(end(launchers[static_cast<size_t>(victim)]).status, 128 + SIGKILL);
    launchers[static_cast<size_t>(victim)] = node(victim, "hang-once", "-1");
    for (const Started& launcher : launchers) {
      const Ended ended = end(launcher);
      EXPECT_EQ(ended.status, 0) << ended.output;
      EXPECT_TRUE(has(ended, "starting the ranks again (1 of 1 times)")) << ended.output;
    }
  }
}

TEST_F(NodesTest, NodeZeroMayBeLostAfterAnotherNodeHasRejoined) {
  restarts_ = {"--max-restarts", "2"};
  std::vector<Started> launchers = {node(0, "hang-twice", "-1"), node(1, "hang-twice", "-1")};
  await_output(launchers[0], "is up");
  kill(launchers[1].pid, SIGKILL);
  end(launchers[1]);
  launchers[1] = node(1, "hang-twice", "-1");
  await_output(launchers[1], "starting the ranks again (1 of 2 times)");
  kill(launchers[0].pid, SIGKILL);
  end(launchers[0]);
  launchers[0] = node(0, "hang-twice", "-1");
  for (const Started& launcher : launchers) {
    const Ended ended = end(launcher);
    EXPECT_EQ(ended.status, 0) << ended.output;
    EXPECT_TRUE(has(ended, "starting the ranks again (2 of 2 times)")) << ended.output;
  }
}

TEST_F(NodesTest, ALostMachineThatDoesNotRejoinEndsTheJob) {
  restarts_ = {"--max-restarts", "1", "--rejoin-timeout", "1"};
  const Started first = node(0, "hang", "-1"), second = node(1, "hang", "-1");
  await_output(first, "is up");
  kill(second.pid, SIGKILL);
  const Ended ended = end(first);
  end(second);
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.last(0), "modrun: node 1 did not come back within 1 s (--rejoin-timeout)") << ended.output;
}

TEST_F(NodesTest, RejectsASecondLauncherOfANodeRankAndContinues) {
  nodes_ = 3;
  const Started first = node(0, "work", "0"), second = node(1, "work", "0");
  await_output(first, "waiting for node 2 of 3");
  const Ended rejected = end(node(1, "work", "0"));
  EXPECT_EQ(rejected.status, 2);
  EXPECT_TRUE(has(rejected, "modrun: --node-rank 1 is taken by the launcher on ")) << rejected.output;
  const Started third = node(2, "work", "0");
  for (const Started& launcher : {first, second, third}) {
    const Ended ended = end(launcher);
    EXPECT_EQ(ended.status, 0) << ended.output;
  }
}

TEST_F(NodesTest, MismatchedFlagsEndTheJobOnAllMachines) {
  const Started first = node(0, "work", "0"), second = node(1, "work", "0", {"--nproc-per-node", "3"});
  for (const Started& launcher : {first, second}) {
    const Ended ended = end(launcher);
    EXPECT_EQ(ended.status, 2);
    EXPECT_TRUE(has(ended, "was started with --nproc-per-node 3, and node 0")) << ended.output;
  }
}

TEST_F(NodesTest, PrintsARemoteFailureAlthoughLocalRanksExitCleanly) {
  const Started first = node(0, "throw-while-others-save", "3"), second = node(1, "throw-while-others-save", "3");
  const Ended ended = end(first);
  end(second);
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.last(0), "  why:   the data file is cut off") << ended.output;
}

TEST_F(NodesTest, ALauncherInterruptedBeforeAllHaveJoinedEndsTheOthers) {
  nodes_ = 3;
  const Started first = node(0, "work", "0"), second = node(1, "work", "0");
  await_output(first, "waiting for node 2 of 3");
  kill(second.pid, SIGINT);
  EXPECT_EQ(end(second).status, 128 + SIGINT);
  const Ended ended = end(first);
  EXPECT_EQ(ended.status, 2);
  EXPECT_TRUE(has(ended, "was stopped by SIGINT")) << ended.output;
}

TEST_F(NodesTest, ALauncherInterruptedWhileItsRanksHangEndsTheOthers) {
  nodes_ = 3;
  std::vector<Started> launchers;
  for (int rank = 0; rank < 3; ++rank) launchers.push_back(node(rank, "hang", "-1"));
  await_output(launchers[0], "is up");
  kill(launchers[1].pid, SIGTERM);
  for (size_t rank = 0; rank < 3; ++rank) {
    const Ended ended = end(launchers[rank]);
    EXPECT_NE(ended.status, 0);
    EXPECT_LT(ended.seconds, 30.0);
    if (rank != 1) {
      EXPECT_TRUE(has(ended, "modrun: node 1 (")) << ended.output;
    }
  }
}

TEST_F(NodesTest, NamesAMachineLostWhileRanksSaveAfterASignal) {
  nodes_ = 3;
  std::vector<Started> launchers;
  for (int rank = 0; rank < 3; ++rank) launchers.push_back(node(rank, "ignore-term", "-1"));
  await_output(launchers[0], "ignores it");
  kill(launchers[1].pid, SIGTERM);
  await_output(launchers[1], "forwarded SIGTERM");
  kill(launchers[2].pid, SIGKILL);
  for (size_t rank = 0; rank < 3; ++rank) {
    const Ended ended = end(launchers[rank]);
    EXPECT_NE(ended.status, 0);
    EXPECT_LT(ended.seconds, 30.0);
    if (rank != 2) {
      EXPECT_TRUE(has(ended, "modrun: node 2 (")) << ended.output;
    }
  }
}

TEST_F(NodesTest, AMachineWithoutALogFolderEndsTheOthersWithItsMessage) {
  const Started first = node(0, "work", "0"), second = node(1, "work", "0", {"--log-dir", "/proc/none"});
  for (const Started& launcher : {first, second}) {
    const Ended ended = end(launcher);
    EXPECT_EQ(ended.status, 2);
    EXPECT_TRUE(has(ended, "the log folder cannot be created: /proc/none")) << ended.output;
  }
}

TEST_F(NodesTest, IgnoresStrangersOnTheMasterPort) {
  nodes_ = 3;
  const Started first = node(0, "work", "0"), second = node(1, "work", "0");
  await_output(first, "waiting for node 2 of 3");
  std::vector<int> strangers;
  const std::string long_line(size_t{3} << 20, 'x');
  for (const std::string& text :
       {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"), std::string("{\"report\":\"hello\"}\n"),
        std::string("[[[[\n"), std::string("{\"report\":7}\n"), long_line}) {
    const int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(port_)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(stranger, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    send(stranger, text.data(), text.size(), MSG_NOSIGNAL);
    strangers.push_back(stranger);
  }
  const Started third = node(2, "work", "0");
  for (const Started& launcher : {first, second, third}) {
    const Ended ended = end(launcher);
    EXPECT_EQ(ended.status, 0) << ended.output;
  }
  for (const int stranger : strangers) close(stranger);
}

/// Ranks on two machines as started by srun, without modrun's launcher.
class OtherLaunchersTest : public LaunchTest {
 protected:
  Started rank(int number, const std::string& misbehaving_rank) {
    return probe({"hang", misbehaving_rank}, {fmt::format("RANK={}", number), "LOCAL_RANK=0", "WORLD_SIZE=2",
                                              "LOCAL_WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port_});
  }
  const std::string port_ = std::to_string(free_port());
};

TEST_F(OtherLaunchersTest, NamesALostMachineWithinSeconds) {
  const Started first = rank(0, "-1"), second = rank(1, "-1");
  await_output(first, "is up");
  await_output(second, "is up");
  kill(second.pid, SIGKILL);
  await_output(first, "(rank 1) has shown no sign of life for 3 s");
  kill(first.pid, SIGKILL);
  EXPECT_TRUE(end(first).output.find("(rank 1) has shown no sign of life for 3 s") != std::string::npos);
  end(second);
}

TEST_F(OtherLaunchersTest, NamesTheMachineOfTheStoreIfACollectiveFails) {
  const Started first = rank(0, "0"), second = rank(1, "0");
  await_output(first, "is up");
  await_output(second, "is up");
  kill(first.pid, SIGKILL);
  const Ended ended = end(second);
  end(first);
  EXPECT_EQ(ended.status, 1);
  EXPECT_NE(ended.output.find("rank 0's machine (127.0.0.1), which holds the job's store, is gone"), std::string::npos)
      << ended.output;
}

}  // namespace
}  // namespace modular
