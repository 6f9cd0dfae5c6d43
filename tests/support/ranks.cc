#include "tests/support/ranks.h"

#include <ATen/Parallel.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
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
#include <system_error>

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

/// Forks ranks from this program as it was before its first test. Starting it again would load libtorch and make all
/// parameterized tests for each rank, which takes longer than most ranks compute.
class ForkServer : public ::testing::Environment {
 public:
  /// Forks the server, unless this process is a rank. No thread runs yet.
  void SetUp() override {
    if (std::getenv("MODULAR_TEST_CALL") || socket_ >= 0) return;
    int ends[2];
    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    fflush(nullptr);
    const pid_t test = getpid(), server = fork();
    check(server >= 0);
    if (server == 0) {
      close(ends[0]);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == test) serve(ends[1]);
      _exit(0);
    }
    close(ends[1]);
    socket_ = ends[0];
  }

  /// Starts a process that runs the test `filter` with `environment` and writes its output to `output`.
  pid_t start(const std::string& filter, const std::string& output, const std::vector<std::string>& environment) {
    std::string request = filter + '\0' + output + '\0';
    for (const std::string& variable : environment) request += variable + '\0';
    return ask(request).pid;
  }

  /// Whether the process has ended, with its wait status.
  bool has_ended(pid_t pid, int& wait_status) {
    const Answer answer = ask(std::to_string(pid));
    wait_status = answer.wait_status;
    return answer.pid == pid;
  }

 private:
  struct Answer {
    pid_t pid;
    int wait_status;
  };

  static void check(bool succeeded) {
    if (!succeeded) throw std::system_error(errno, std::generic_category(), "the server that forks ranks");
  }

  Answer ask(const std::string& request) {
    Answer answer;
    check(send(socket_, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size()));
    check(recv(socket_, &answer, sizeof(answer), 0) == sizeof(answer));
    check(answer.pid >= 0);
    return answer;
  }

  /// Returns when the test program ends.
  static void serve(int socket) {
    std::vector<char> buffer(1 << 20);
    for (;;) {
      const ssize_t size = recv(socket, buffer.data(), buffer.size(), 0);
      if (size <= 0) return;
      const std::string request(buffer.data(), static_cast<size_t>(size));
      const size_t end = request.find('\0');
      Answer answer{0, 0};
      if (end == std::string::npos) {
        answer.pid = waitpid(std::stoi(request), &answer.wait_status, WNOHANG);
      } else if ((answer.pid = fork()) == 0) {
        close(socket);
        run_test(request);
      }
      if (send(socket, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer)) return;
    }
  }

  [[noreturn]] static void run_test(const std::string& request) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::vector<std::string> words;
    for (size_t begin = 0; begin < request.size(); begin += words.back().size() + 1)
      words.emplace_back(request.c_str() + begin);
    clearenv();
    for (size_t i = 2; i < words.size(); ++i) {
      const size_t equals = words[i].find('=');
      setenv(words[i].substr(0, equals).c_str(), words[i].c_str() + equals + 1, 1);
    }
    const int log = open(words[1].c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    at::set_num_threads(1);  // libraries read OMP_NUM_THREADS when they are loaded
    GTEST_FLAG_SET(filter, words[0]);
    GTEST_FLAG_SET(also_run_disabled_tests, true);
    GTEST_FLAG_SET(output, "");
    const int status = RUN_ALL_TESTS();
    fflush(nullptr);
    _exit(status);
  }

  int socket_ = -1;
};

ForkServer& server() {
  static auto* const result = static_cast<ForkServer*>(::testing::AddGlobalTestEnvironment(new ForkServer));
  return *result;
}

[[maybe_unused]] const ForkServer& registered = server();

struct Rank {
  pid_t pid = -1;
  fs::path output, report, status;
  bool running = true;
  int wait_status = 0;
};

Rank start_rank(int rank, int ranks, int call, uint16_t port) {
  Rank result;
  const fs::path base = folder().path / fmt::format("{}.call{}.rank{}", current_test_file_name(), call, rank);
  result.output = base.string() + ".log";
  result.report = base.string() + ".report";
  result.status = base.string() + ".status";

  const std::vector<std::string> variables = {
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
  // GoogleTest's output file and its shards are the parent's.
  result.pid =
      server().start(current_test(), result.output.string(),
                     child_environment(variables, {"GTEST_OUTPUT", "GTEST_SHARD_INDEX", "GTEST_TOTAL_SHARDS"}));
  return result;
}

void reap(Rank& rank) {
  if (!rank.running) return;
  if (server().has_ended(rank.pid, rank.wait_status)) rank.running = false;
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
                                      std::chrono::seconds timeout) {
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
  for (int rank = 0; rank < count; ++rank) ranks.push_back(start_rank(rank, count, call, store.getPort()));
  const bool in_time = wait_for_success(ranks, Clock::now() + timeout, std::chrono::seconds(10));

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
