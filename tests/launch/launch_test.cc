// The launcher with real processes: which processes end, how soon, and the last lines of output.
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
#include "tests/launch/launch_fixture.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

using testing::await_output;
using testing::child_processes;
using testing::Ended;
using testing::free_port;
using testing::Started;

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

TEST_F(LaunchTest, DividesTheCoresAmongRanksByDefault) {
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
  const Ended shared = end(probe({"--nproc-per-node", "2", "work", "0"}));
  EXPECT_NE(shared.output.find(fmt::format("up, {} threads", std::max(1, CPU_COUNT(&usable) / 2))), std::string::npos)
      << shared.output;
  const Ended with_variable = end(probe({"--nproc-per-node", "2", "work", "0"}, {"OMP_NUM_THREADS=7"}));
  EXPECT_NE(with_variable.output.find("up, 7 threads"), std::string::npos) << with_variable.output;
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

TEST_F(LaunchTest, AKilledRankIsTheCauseEvenIfOthersFailToo) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "kill", "1"}));
  EXPECT_EQ(ended.status, 137);
  EXPECT_EQ(ended.last(3), "modrun: rank 1 of 2 failed; the job was stopped") << ended.output;
  EXPECT_EQ(ended.last(1), "  where: step 3");
  EXPECT_EQ(ended.last(0), "  why:   killed by SIGKILL (Killed), which the kernel sends when memory runs out");
}

TEST_F(LaunchTest, ABackendErrorIsNotTheCauseEvenIfItComesFirst) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "backend-fails-first", "0"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.last(2), "modrun: rank 0 of 2 failed; the job was stopped") << ended.output;
  EXPECT_EQ(ended.last(1), "  where: step 3");
  EXPECT_EQ(ended.last(0), "  why:   the disk is full");
}

TEST_F(LaunchTest, ACrashIsNamed) {
  // Disable the sanitizer's own handler.
  const Ended ended = end(probe({"--nproc-per-node", "2", "crash", "0"}, {"ASAN_OPTIONS=handle_segv=0"}));
  EXPECT_EQ(ended.status, 139);
  EXPECT_EQ(ended.last(0), "  why:   killed by SIGSEGV (Segmentation fault)") << ended.output;
}

TEST_F(LaunchTest, AStoppedRankIsFrozenAndEndsTheJob) {
  const Ended ended = end(probe({"--nproc-per-node", "3", "stop", "1"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.last(3), "modrun: rank 1 of 3 is frozen; the job was stopped") << ended.output;
  EXPECT_EQ(ended.last(1), "  where: step 3");
  EXPECT_EQ(ended.last(0), "  why:   its process is stopped, as by SIGSTOP");
}

TEST_F(LaunchTest, StoreKeysHaveAnUnguessablePrefix) {
  const Started run = probe({"--nproc-per-node", "2", "hang", "0"});
  await_output(run, "is up");
  std::string port;
  for (const pid_t rank : child_processes(run.pid)) {
    std::ifstream environment(fmt::format("/proc/{}/environ", rank));
    for (std::string variable; std::getline(environment, variable, '\0');)
      if (variable.starts_with("MASTER_PORT=")) port = variable.substr(12);
  }
  ASSERT_FALSE(port.empty());
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(std::stoi(port));
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  for (const std::string& key : store->listKeys()) {
    if (key.starts_with("init/")) continue;  // the store's own key
    EXPECT_GE(key.find_first_not_of("0123456789abcdef"), 32U) << key;
  }
  // Gloo's key of the first group, without a prefix.
  EXPECT_FALSE(store->check({"attempt_0/dp_shard:0/cpu/0/rank_0"}));
  kill(run.pid, SIGKILL);
  end(run);
}

TEST_F(LaunchTest, ForwardsAnExitStatus) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "exit3", "1"}));
  EXPECT_EQ(ended.status, 3);
  EXPECT_EQ(ended.last(0), "  why:   exited with status 3 and left no error message") << ended.output;
}

TEST_F(LaunchTest, ATimeoutReportsWhatTheSilentRankWasDoing) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "ignore-term", "1"}, {"PROBE_TIMEOUT_MS=1500"}));
  EXPECT_EQ(ended.status, 1);
  EXPECT_NE(ended.output.find("  rank 1 was still running: step 3\n"), std::string::npos) << ended.output;
  EXPECT_EQ(ended.last(0).find("  why:   all_reduce of the loss over dp_shard (as rank 0 of 2) failed: "), 0U)
      << ended.output;
}

TEST_F(LaunchTest, ForwardsSignals) {
  const Started run = probe({"--nproc-per-node", "2", "hang", "0"});
  await_output(run, "is up");
  kill(run.pid, SIGTERM);
  const Ended ended = end(run);
  EXPECT_EQ(ended.status, 128 + SIGTERM);
  EXPECT_EQ(ended.last(0), "modrun: stopped by SIGTERM") << ended.output;
}

TEST_F(LaunchTest, RanksThatExitCleanlyAfterASignalHaveNotFailed) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "end-in-order", "-1"}));
  EXPECT_EQ(ended.status, 128 + SIGTERM);
  EXPECT_EQ(ended.last(0), "modrun: stopped by SIGTERM") << ended.output;
}

TEST_F(LaunchTest, RanksHaveNoDeadlineAfterASignalUntilTheSecond) {
  const Started run = probe({"--nproc-per-node", "2", "ignore-term", "0"});
  await_output(run, "ignores it");
  kill(run.pid, SIGTERM);
  await_output(run, "forwarded SIGTERM");
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
  const Ended recovered = end(probe({"--nproc-per-node", "2", "--max-restarts", "2", "throw-once", "1"}));
  EXPECT_EQ(recovered.status, 0) << recovered.output;
  EXPECT_NE(recovered.output.find("  why:   the first attempt\nmodrun: starting the ranks again (1 of 2 times)"),
            std::string::npos)
      << recovered.output;
  const Ended given_up = end(probe({"--nproc-per-node", "2", "--max-restarts", "2", "throw", "1"}));
  EXPECT_EQ(given_up.status, 1);
  EXPECT_NE(given_up.output.find("starting the ranks again (2 of 2 times)"), std::string::npos) << given_up.output;
  EXPECT_EQ(given_up.last(0), "  why:   the data file is cut off");
}

/// Returns the local addresses, in /proc's format, on which a process listens.
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

TEST_F(LaunchTest, TheStoreOfASingleMachineListensOnTheLoopbackOnly) {
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

TEST_F(LaunchTest, SchedulerStartedRanksOfASingleMachineMeetOnTheLoopbackForAnyHostName) {
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
  for (const pid_t rank : child_processes(run.pid)) ranks.push_back({open_pidfd(rank), POLLIN, 0});
  ASSERT_EQ(ranks.size(), 2U);
  kill(run.pid, SIGKILL);
  EXPECT_EQ(end(run).status, 128 + SIGKILL);
  for (pollfd& rank : ranks) {
    EXPECT_EQ(poll(&rank, 1, 20000), 1) << "a rank is still running";
    close(rank.fd);
  }
}

TEST_F(LaunchTest, KeepsTheLogsOfAFailedRunInTheGivenFolder) {
  const Ended ended = end(probe({"--nproc-per-node", "2", "--log-dir", folder_ + "/logs", "throw", "1"}));
  EXPECT_EQ(ended.last(2), "  log:   " + folder_ + "/logs/rank1.log") << ended.output;
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/logs/rank1.log"));
  const auto report = read_failure(folder_ + "/logs/rank1.error.json");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->message, "the data file is cut off");
}

TEST_F(LaunchTest, LeavesNoFolderThatTheOutputDoesNotName) {
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

TEST_F(LaunchTest, ThrowsIfAProgramCannotBeStarted) {
  EXPECT_THROW(start_process({"/no/such/program"}, {}, {}), std::runtime_error);
}

TEST_F(LaunchTest, SlurmStartsTheSameProgram) {
  // srun passes each task its rank. Rank 0 hosts the store, and other ranks may outlive its work.
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
  if (!std::filesystem::exists(MODULAR_TORCHRUN)) GTEST_SKIP() << "no torchrun next to this libtorch";
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
