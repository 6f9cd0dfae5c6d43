#include "tests/support/ranks.h"

#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "runtime/launch/process.h"
#include "runtime/mesh/status.h"

namespace modular::testing {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

std::string current_test() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("{}.{}", info->test_suite_name(), info->name());
}

/// The test's name as a part of a file name: names of parameterized tests hold slashes.
std::string current_test_file_name() {
  std::string name = current_test();
  std::ranges::replace(name, '/', '-');
  return name;
}

std::string contents(const fs::path& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// Removes the folder in the process that made it.
struct Folder {
  fs::path path;
  bool own = false;
  ~Folder() {
    std::error_code ignored;
    if (own) fs::remove_all(path, ignored);
  }
};

Folder& folder() {
  static Folder result = [] {
    if (const char* given = std::getenv("MODULAR_TEST_FOLDER")) return Folder{given, false};
    std::string pattern = (fs::temp_directory_path() / "modular-test-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw std::runtime_error("cannot make a folder in " + fs::temp_directory_path().string());
    return Folder{pattern, true};
  }();
  return result;
}

/// Writes the stack of the thread that gets the signal, for a rank that hangs.
void print_stack(int) {
  void* frames[64];
  const int count = backtrace(frames, 64);
  backtrace_symbols_fd(frames, count, STDERR_FILENO);
}

/// Runs in a rank: calls the body, leaves its report, ends the process.
[[noreturn]] void be_rank(const std::function<Report(const Environment&)>& body) {
  void* warm_up[1];
  backtrace(warm_up, 1);  // loads libgcc now: not allowed inside a signal handler
  signal(SIGQUIT, print_stack);
  const auto environment = Environment::from_process();
  bool threw = false;
  try {
    const Report report = body(environment);
    std::ofstream file(std::getenv("MODULAR_TEST_REPORT"));
    for (const double value : report) file << fmt::format("{:.17g}\n", value);
  } catch (const std::exception& error) {
    std::cerr << "rank " << environment.rank << " threw: " << error.what() << std::endl;
    threw = true;
  }
  std::cout.flush();
  std::cerr.flush();
  fflush(nullptr);
  // Without destructors: peers may already be gone.
  _exit(threw || ::testing::Test::HasFailure() ? 1 : 0);
}

struct Rank {
  pid_t pid = -1;
  fs::path output, report, status;
  bool running = true;
  int wait_status = 0;
};

Rank start_rank(int rank, int ranks, int call, uint16_t port, const RankOptions& options) {
  Rank result;
  const fs::path base = folder().path / fmt::format("{}.call{}.rank{}", current_test_file_name(), call, rank);
  result.output = base.string() + ".log";
  result.report = base.string() + ".report";
  result.status = base.string() + ".status";

  std::vector<std::string> variables = {
      fmt::format("RANK={}", rank),
      fmt::format("WORLD_SIZE={}", ranks),
      fmt::format("LOCAL_RANK={}", rank),
      fmt::format("LOCAL_WORLD_SIZE={}", ranks),
      "MASTER_ADDR=127.0.0.1",
      fmt::format("MASTER_PORT={}", port),
      "TORCHELASTIC_USE_AGENT_STORE=True",
      "OMP_NUM_THREADS=1",
      fmt::format("MODULAR_TEST_CALL={}", call),
      fmt::format("MODULAR_TEST_FOLDER={}", folder().path.string()),
      fmt::format("MODULAR_TEST_REPORT={}", result.report.string()),
      fmt::format("MODULAR_STATUS_FILE={}", result.status.string()),
  };
  variables.insert(variables.end(), options.environment.begin(), options.environment.end());
  const int log = open(result.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  // GoogleTest's output file and its shards are the parent's.
  result.pid = start_process({"/proc/self/exe", "--gtest_filter=" + current_test(), "--gtest_also_run_disabled_tests"},
                             child_environment(variables, {"GTEST_OUTPUT", "GTEST_SHARD_INDEX", "GTEST_TOTAL_SHARDS"}),
                             {.output = log, .error = log});
  close(log);
  return result;
}

void reap(Rank& rank) {
  if (!rank.running) return;
  if (waitpid(rank.pid, &rank.wait_status, WNOHANG) == rank.pid) rank.running = false;
}

bool any_running(std::vector<Rank>& ranks) {
  bool running = false;
  for (Rank& rank : ranks) {
    reap(rank);
    running = running || rank.running;
  }
  return running;
}

/// Waits until all ranks ended or `deadline`; wakes up when one ends.
bool wait_for(std::vector<Rank>& ranks, Clock::time_point deadline) {
  while (any_running(ranks)) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    std::vector<pollfd> ends;
    for (const Rank& rank : ranks)
      if (rank.running) ends.push_back({open_pidfd(rank.pid), POLLIN, 0});
    poll(ends.data(), ends.size(), static_cast<int>(left));
    for (const pollfd& end : ends) close(end.fd);
  }
  return true;
}

bool failed(const Rank& rank) { return !WIFEXITED(rank.wait_status) || WEXITSTATUS(rank.wait_status) != 0; }

/// As wait_for, but once a rank has failed, the others get `grace` only.
bool wait_for_success(std::vector<Rank>& ranks, Clock::time_point deadline, std::chrono::seconds grace) {
  bool hurried = false;
  while (any_running(ranks)) {
    if (!hurried) {
      for (const Rank& rank : ranks)
        if (!rank.running && failed(rank)) {
          deadline = std::min(deadline, Clock::now() + grace);
          hurried = true;
        }
    }
    if (Clock::now() >= deadline) return false;
    wait_for(ranks, std::min(deadline, Clock::now() + std::chrono::milliseconds(200)));
  }
  return true;
}

std::string how_it_ended(const Rank& rank) {
  if (WIFSIGNALED(rank.wait_status))
    return fmt::format("was killed by signal {}", strsignal(WTERMSIG(rank.wait_status)));
  return fmt::format("exited with {}", WEXITSTATUS(rank.wait_status));
}

/// Counts the calls within the running test: parent and ranks get the same count.
int next_call() {
  static std::string test;
  static int calls = 0;
  if (test != current_test()) calls = 0;
  test = current_test();
  return calls++;
}

}  // namespace

std::vector<Report> detail::run_ranks(int count, const std::function<Report(const Environment&)>& body,
                                      const RankOptions& options) {
  const int call = next_call();
  if (const char* own_call = std::getenv("MODULAR_TEST_CALL")) {
    if (std::atoi(own_call) == call) be_rank(body);
    return std::vector<Report>(static_cast<size_t>(count));
  }

  c10d::TCPStoreOptions store_options;
  store_options.port = 0;
  store_options.isServer = true;
  store_options.waitWorkers = false;
  c10d::TCPStore store("127.0.0.1", store_options);

  std::vector<Rank> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(start_rank(rank, count, call, store.getPort(), options));
  const bool in_time = wait_for_success(ranks, Clock::now() + options.timeout, std::chrono::seconds(10));

  std::vector<bool> hung(ranks.size(), false);
  if (!in_time) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      hung[rank] = ranks[rank].running;
      // To the main thread, which is the one that runs the test.
      if (hung[rank]) syscall(SYS_tgkill, ranks[rank].pid, ranks[rank].pid, SIGQUIT);
    }
    wait_for(ranks, Clock::now() + std::chrono::seconds(1));
    for (Rank& rank : ranks)
      if (rank.running) kill(rank.pid, SIGKILL);
    wait_for(ranks, Clock::now() + std::chrono::seconds(10));
  }

  std::vector<Report> reports;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (hung[rank]) {
      const Status status = read_status(ranks[rank].status);
      ADD_FAILURE() << "rank " << rank << " of " << count << " hung"
                    << (status.phase.empty() ? "" : " in phase \"" + status.phase + "\"")
                    << (status.waiting.empty() ? "" : ", waiting for " + status.waiting) << "\n"
                    << contents(ranks[rank].output);
    } else if (failed(ranks[rank])) {
      ADD_FAILURE() << "rank " << rank << " of " << count << " " << how_it_ended(ranks[rank]) << "\n"
                    << contents(ranks[rank].output);
    }
    std::ifstream file(ranks[rank].report);
    Report report;
    for (double value = 0; file >> value;) report.push_back(value);
    reports.push_back(std::move(report));
  }
  return reports;
}

std::string shared_folder() { return folder().path.string(); }

}  // namespace modular::testing
