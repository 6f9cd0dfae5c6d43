// The launcher with real processes: what ends, how soon, and what the last lines on the screen say.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "runtime/launch/failure.h"
#include "runtime/launch/process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

using testing::await_output;
using testing::children_of;
using testing::end_of_program;
using testing::Ended;
using testing::free_port;
using testing::start_program;
using testing::Started;

class LaunchTest : public ::testing::Test {
 protected:
  LaunchTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "launch-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~LaunchTest() override { std::filesystem::remove_all(folder_); }

  Started start(const std::vector<std::string>& command, std::vector<std::string> variables = {}) {
    variables.push_back("TMPDIR=" + folder_);  // where logs of failed runs stay
    return start_program(command, folder_, variables);
  }

  Started probe(std::vector<std::string> arguments, const std::vector<std::string>& variables = {}) {
    arguments.insert(arguments.begin(), MODULAR_LAUNCH_PROBE);
    return start(arguments, variables);
  }

  static Ended end(const Started& run) { return end_of_program(run); }

  std::string folder_;
};

TEST_F(LaunchTest, RunsAllRanksAndShowsOnlyTheFirst) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "work", "0"}));
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_NE(ended.output.find("rank 0 of 2 is up"), std::string::npos) << ended.output;
  EXPECT_EQ(ended.output.find("rank 1 of 2 is up"), std::string::npos) << ended.output;
}

TEST_F(LaunchTest, ShowsAllRanksOnRequest) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "--show-all", "work", "0"}));
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_NE(ended.output.find("[0] rank 0 of 2 is up"), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("[1] rank 1 of 2 is up"), std::string::npos) << ended.output;
}

TEST_F(LaunchTest, SharesTheCoresOutUnlessTold) {
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
  const Ended shared = end(probe({"--nproc-per-node", "2", "work", "0"}));
  EXPECT_NE(shared.output.find(fmt::format("up, {} threads", std::max(1, CPU_COUNT(&usable) / 2))), std::string::npos)
      << shared.output;
  const Ended told = end(probe({"--nproc-per-node", "2", "work", "0"}, {"OMP_NUM_THREADS=7"}));
  EXPECT_NE(told.output.find("up, 7 threads"), std::string::npos) << told.output;
}

TEST_F(LaunchTest, AnExceptionIsTheLastLineAndStopsAll) {
  const Ended ended = end(probe({"--nproc-per-node", "3", "throw", "1"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_LT(ended.seconds, 30);
  EXPECT_EQ(ended.last(3), "modrun: rank 1 of 3 failed; the job was stopped") << ended.output;
  EXPECT_EQ(ended.last(1), "  where: step 3");
  EXPECT_EQ(ended.last(0), "  why:   the data file is cut off");
  EXPECT_NE(ended.output.find("  | rank 1 of 3 is up"), std::string::npos) << "the failed rank's own output";
}

TEST_F(LaunchTest, AFailedCheckNamesItsFileAndLine) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "check", "0"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_NE(ended.last(1).find("launch_probe.cc:"), std::string::npos) << ended.output;
  EXPECT_EQ(ended.last(0), "  why:   sizes differ");
}

TEST_F(LaunchTest, AKilledRankIsTheCauseThoughTheOthersFailToo) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "kill", "1"}));
  EXPECT_EQ(ended.status, 137);
  EXPECT_EQ(ended.last(3), "modrun: rank 1 of 2 failed; the job was stopped") << ended.output;
  EXPECT_EQ(ended.last(1), "  where: step 3");
  EXPECT_EQ(ended.last(0), "  why:   killed by SIGKILL (Killed), which the kernel sends when memory runs out");
}

TEST_F(LaunchTest, AnErrorOfTheBackendIsNotTheCauseThoughItComesFirst) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "backend-fails-first", "0"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.last(2), "modrun: rank 0 of 2 failed; the job was stopped") << ended.output;
  EXPECT_EQ(ended.last(1), "  where: step 3");
  EXPECT_EQ(ended.last(0), "  why:   the disk is full");
}

TEST_F(LaunchTest, ACrashIsNamed) {
  // Without a sanitizer's own handler.
  const Ended ended = end(probe({"--nproc-per-node", "2", "crash", "0"}, {"ASAN_OPTIONS=handle_segv=0"}));
  EXPECT_EQ(ended.status, 139);
  EXPECT_EQ(ended.last(0), "  why:   killed by SIGSEGV (Segmentation fault)") << ended.output;
}

TEST_F(LaunchTest, AnExitStatusIsPassedOn) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "exit3", "1"}));
  EXPECT_EQ(ended.status, 3);
  EXPECT_EQ(ended.last(0), "  why:   exited with status 3 and left no error message") << ended.output;
}

TEST_F(LaunchTest, ATimeoutSaysWhatTheSilentRankWasDoing) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "ignore-term", "1"}, {"PROBE_TIMEOUT_MS=1500"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_NE(ended.output.find("  rank 1 still ran: step 3\n"), std::string::npos) << ended.output;
  EXPECT_EQ(ended.last(0).find("  why:   all_reduce of the loss over dp_shard (as rank 0 of 2) failed: "), 0U)
      << ended.output;
}

TEST_F(LaunchTest, PassesSignalsOn) {
  const Started run = probe({"--nproc-per-node", "2", "hang", "0"});
  await_output(run, "is up");
  kill(run.pid, SIGTERM);
  const Ended ended = end(run);
  EXPECT_EQ(ended.status, 128 + SIGTERM);
  EXPECT_EQ(ended.last(0), "modrun: stopped by SIGTERM") << ended.output;
}

TEST_F(LaunchTest, RanksThatEndInOrderAfterASignalHaveNotFailed) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "end-in-order", "-1"}));
  EXPECT_EQ(ended.status, 128 + SIGTERM);
  EXPECT_EQ(ended.last(0), "modrun: stopped by SIGTERM") << ended.output;
}

TEST_F(LaunchTest, RanksMayTakeTheirTimeAfterASignalUntilTheSecond) {
  const Started run = probe({"--nproc-per-node", "2", "ignore-term", "0"});
  await_output(run, "ignores it");
  kill(run.pid, SIGTERM);
  await_output(run, "passed on");
  kill(run.pid, SIGINT);
  const Ended ended = end(run);
  EXPECT_EQ(ended.status, 128 + SIGINT);
  EXPECT_LT(ended.seconds, 30);
}

TEST_F(LaunchTest, ARankThatDiesWhileItSavesAfterASignalHasFailed) {
  const Started run = probe({"--nproc-per-node", "2", "killed-while-it-saves", "0"});
  await_output(run, "it trains");
  kill(run.pid, SIGTERM);
  const Ended ended = end(run);
  EXPECT_EQ(ended.status, 128 + SIGKILL);
  EXPECT_EQ(ended.output.find("stopped by SIGTERM"), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("modrun: rank 0 of 2 failed"), std::string::npos) << ended.output;
}

TEST_F(LaunchTest, RanksAreStartedAgainAfterAFailure) {
  const Ended mended = end(probe({"--nproc-per-node", "2", "--max-restarts", "2", "throw-once", "1"}));
  EXPECT_EQ(mended.status, 0) << mended.output;
  EXPECT_NE(mended.output.find("  why:   the first attempt\nmodrun: starting the ranks again (1 of 2 times)"),
            std::string::npos)
      << mended.output;
  const Ended given_up = end(probe({"--nproc-per-node", "2", "--max-restarts", "2", "throw", "1"}));
  EXPECT_EQ(given_up.status, 1);
  EXPECT_NE(given_up.output.find("starting the ranks again (2 of 2 times)"), std::string::npos) << given_up.output;
  EXPECT_EQ(given_up.last(0), "  why:   the data file is cut off");
}

/// The local addresses, as /proc has them, on which a process listens.
std::vector<std::string> listening_addresses(pid_t process) {
  std::set<std::string> sockets;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", process))) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.starts_with("socket:[")) sockets.insert(target.substr(8, target.size() - 9));
  }
  std::vector<std::string> addresses;
  for (const char* table : {"tcp", "tcp6"}) {
    std::ifstream lines(fmt::format("/proc/{}/net/{}", process, table));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      std::vector<std::string> field{std::istream_iterator<std::string>(fields), {}};
      if (field.size() > 9 && field[3] == "0A" && sockets.contains(field[9])) addresses.push_back(field[1]);
    }
  }
  return addresses;
}

TEST_F(LaunchTest, TheStoreOfOneMachineListensOnTheLoopbackAlone) {
  for (const std::vector<std::string>& flags : {std::vector<std::string>{}, {"--master-addr", "localhost"}}) {
    std::vector<std::string> words = {"--nproc-per-node", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"hang", "0"});
    const Started run = probe(words);
    await_output(run, "is up");
    const std::vector<std::string> addresses = listening_addresses(run.pid);
    kill(run.pid, SIGKILL);
    end(run);
    ASSERT_EQ(addresses.size(), 1U);
    EXPECT_EQ(addresses[0].substr(0, 8), fmt::format("{:08X}", htonl(INADDR_LOOPBACK)));
  }
}

TEST_F(LaunchTest, RanksOfOneMachineThatASchedulerStartedMeetOnTheLoopbackWhateverTheMachineIsCalled) {
  const std::string port = "MASTER_PORT=" + std::to_string(free_port());
  std::vector<Started> ranks;
  for (const char* rank : {"0", "1"})
    ranks.push_back(
        probe({"work", "0"}, {std::string("RANK=") + rank, std::string("LOCAL_RANK=") + rank, "WORLD_SIZE=2",
                              "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=no-such-host.invalid", port}));
  for (const Started& rank : ranks) {
    const Ended ended = end(rank);
    EXPECT_EQ(ended.status, 0) << ended.output;
  }
}

TEST_F(LaunchTest, RanksEndWithAKilledLauncher) {
  const Started run = probe({"--nproc-per-node", "2", "hang", "0"});
  await_output(run, "is up");
  std::vector<pollfd> ranks;
  for (const pid_t rank : children_of(run.pid)) ranks.push_back({end_of(rank), POLLIN, 0});
  ASSERT_EQ(ranks.size(), 2U);
  kill(run.pid, SIGKILL);
  EXPECT_EQ(end(run).status, 128 + SIGKILL);
  for (pollfd& rank : ranks) {
    EXPECT_EQ(poll(&rank, 1, 20000), 1) << "a rank lives on";
    close(rank.fd);
  }
}

TEST_F(LaunchTest, KeepsTheLogsOfAFailedRunAndWhereItWasTold) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "--log-dir", folder_ + "/logs", "throw", "1"}));
  EXPECT_EQ(ended.last(2), "  log:   " + folder_ + "/logs/rank1.log") << ended.output;
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/logs/rank1.log"));
  const auto report = read_failure(folder_ + "/logs/rank1.error.json");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->message, "the data file is cut off");
}

TEST_F(LaunchTest, LeavesNoFolderThatItDoesNotName) {
  const auto left = [&] {
    return std::ranges::count_if(std::filesystem::directory_iterator(folder_),
                                 [](const auto& entry) { return entry.is_directory(); });
  };
  end(probe({"--nproc-per-node", "2", "throw", "0"}));
  end(probe({"--nproc-per-node", "2", "--max-restarts", "1", "throw-once", "0"}));
  EXPECT_EQ(left(), 0) << "rank 0 writes to the terminal";
  end(probe({"--nproc-per-node", "2", "throw", "1"}));
  EXPECT_EQ(left(), 1);
}

TEST_F(LaunchTest, SaysThatAProgramCannotBeStarted) {
  EXPECT_THROW(start_process({"/no/such/program"}, {}, {}), std::runtime_error);
}

class NodesTest : public LaunchTest {
 protected:
  Started node(int rank, const std::string& way, const std::string& misbehaving_rank) {
    std::vector<std::string> arguments = {
        "--nproc-per-node", "2",         "--nnodes",      "2",  "--node-rank", std::to_string(rank),
        "--master-addr",    "127.0.0.1", "--master-port", port_};
    arguments.insert(arguments.end(), restarts_.begin(), restarts_.end());
    arguments.insert(arguments.end(), {way, misbehaving_rank});
    return probe(arguments);
  }
  std::vector<std::string> restarts_;
  const std::string port_ = std::to_string(free_port());
};

TEST_F(NodesTest, APortThatIsTakenIsRefusedInOneSentence) {
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

TEST_F(NodesTest, ASignalEndsALauncherWhoseNodeZeroDoesNotAnswer) {
  const int mute = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(port_)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(mute, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(mute, 8), 0);
  const Started run = node(1, "work", "0");
  pollfd event = {mute, POLLIN, 0};
  ASSERT_EQ(poll(&event, 1, 60000), 1) << "nobody connects";
  kill(run.pid, SIGINT);
  const Ended ended = end(run);
  EXPECT_EQ(ended.status, 128 + SIGINT) << ended.output;
  close(mute);
}

TEST_F(LaunchTest, SlurmStartsTheSameProgram) {
  // srun tells each task its place; rank 0 hosts the store, and the others may outlive its work.
  std::vector<Started> tasks;
  const std::string port = std::to_string(free_port());
  for (const char* rank : {"0", "1"})
    tasks.push_back(probe({"work", "0"}, {std::string("SLURM_PROCID=") + rank, std::string("SLURM_LOCALID=") + rank,
                                          "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_TASKS_PER_NODE=2", "SLURM_JOB_ID=12",
                                          "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=localhost", "MASTER_PORT=" + port}));
  for (size_t rank = 0; rank < tasks.size(); ++rank) {
    const Ended ended = end(tasks[rank]);
    EXPECT_EQ(ended.status, 0) << ended.output;
    EXPECT_NE(ended.output.find(fmt::format("rank {} of 2 is up", rank)), std::string::npos) << ended.output;
  }
}

TEST_F(LaunchTest, OpenMpiStartsTheSameProgram) {
  std::vector<Started> processes;
  const std::string port = std::to_string(free_port());
  for (const char* rank : {"0", "1"})
    processes.push_back(probe({"work", "0"}, {std::string("OMPI_COMM_WORLD_RANK=") + rank, "OMPI_COMM_WORLD_SIZE=2",
                                              std::string("OMPI_COMM_WORLD_LOCAL_RANK=") + rank,
                                              "OMPI_COMM_WORLD_LOCAL_SIZE=2", "MASTER_PORT=" + port}));
  for (const Started& process : processes) {
    const Ended ended = end(process);
    EXPECT_EQ(ended.status, 0) << ended.output;
  }
}

TEST_F(LaunchTest, TorchrunStartsTheSameProgram) {
  if (!std::filesystem::exists(MODULAR_TORCHRUN)) GTEST_SKIP() << "no torchrun beside this libtorch";
  const Ended good = end(start(
      {MODULAR_TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python", MODULAR_LAUNCH_PROBE, "work", "0"}));
  EXPECT_EQ(good.status, 0) << good.output;
  EXPECT_NE(good.output.find("rank 1 of 2 is up"), std::string::npos) << good.output;
  const Ended bad = end(start(
      {MODULAR_TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python", MODULAR_LAUNCH_PROBE, "throw", "1"}));
  EXPECT_NE(bad.status, 0);
  EXPECT_NE(bad.output.find("the data file is cut off"), std::string::npos) << bad.output;
}

}  // namespace
}  // namespace modular
