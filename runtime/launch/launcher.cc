#include "runtime/launch/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "runtime/launch/job_store.h"
#include "runtime/launch/process.h"
#include "runtime/launch/rank.h"
#include "runtime/launch/signals.h"
#include "runtime/launch/temporary_folder.h"
#include "runtime/mesh/print.h"

namespace modular {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
namespace fs = std::filesystem;

// Ranks whose collectives broke because a peer went away may end before the peer's own end is seen.
constexpr milliseconds kCauseMayFollow = std::chrono::seconds(2);

// After SIGINT or SIGTERM, between the end of the first rank and that of the last.
constexpr milliseconds kInterruptGrace = std::chrono::seconds(30);
constexpr milliseconds kSameRequest = std::chrono::seconds(1);
constexpr milliseconds kOtherNodesPoll = milliseconds(500);
// For other nodes to hear of a failure and stop.
constexpr milliseconds kOthersStop = std::chrono::seconds(5);

constexpr int kCannotStart = 2;

/// Where the ranks' logs and error files go.
class LogFolder {
 public:
  explicit LogFolder(const std::string& given) : path_(given) {
    if (given.empty()) path_ = temporary_.emplace("give one for logs by --log-dir").path();
    fs::create_directories(path_);
  }
  void keep() {
    if (temporary_) temporary_->keep();
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  std::optional<TemporaryFolder> temporary_;
};

/// A signal that came before there was a rank to pass it on to.
struct Interrupted {
  int signal = 0;
};

/// What a job keeps from its first attempt to its last.
struct Job {
  const LaunchOptions& options;
  Signals signals = {};  // before the store, whose threads inherit the mask
  LogFolder folder{options.log_folder};
  JobStore store{options, [this] {
                   const auto signal = signals.next();
                   if (signal && asks_to_end(*signal)) throw Interrupted{*signal};
                 }};
  std::optional<int> interrupted_by = {};

  /// Keeps the store open while other nodes use it: as long as they take to end well, or some seconds after a failure.
  void leave(bool well) {
    store.tell_done();
    const auto deadline = Clock::now() + kOthersStop;
    while (!store.may_close() && (well || Clock::now() < deadline)) {
      pollfd event = {signals.descriptor(), POLLIN, 0};
      if (poll(&event, 1, static_cast<int>(kOtherNodesPoll.count())) == 1) break;
    }
  }
};

/// The ranks of this machine, from their start to their end.
class Attempt {
 public:
  Attempt(Job& job, int64_t number) : options_(job.options), job_(job), number_(number) {
    job_.store.begin_attempt(number);
    if (number > 0) logs_ = job.folder.path() / fmt::format("attempt-{}", number);
    fs::create_directories(logs_);
  }
  ~Attempt() {
    for (Rank& rank : ranks_) rank.signal(SIGKILL);
    for (Rank& rank : ranks_) rank.wait();
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// Whether a rank failed, here or elsewhere, unasked.
  bool failed() const { return !job_.interrupted_by && (failed_rank_ || !remote_failure_.empty()); }

  /// Returns the job's exit status, with the reason printed where that is not 0.
  int run(const std::vector<std::string>& command) {
    for (int64_t local = 0; local < options_.ranks_per_node; ++local) start(local, command);
    while (std::ranges::any_of(ranks_, &Rank::running)) {
      wait_for_event();
      while (const auto signal = job_.signals.next()) pass_on(*signal);
      for (Rank& rank : ranks_) rank.reap();
      if (!stopping_) look_for_failure();
      if (job_.interrupted_by && !kill_at_ && std::ranges::any_of(ranks_, &Rank::ended))
        kill_at_ = Clock::now() + kInterruptGrace;
      if (kill_at_ && Clock::now() >= *kill_at_)
        for (Rank& rank : ranks_) rank.end_at_once();
    }
    for (Rank& rank : ranks_) rank.show_output();
    if (!stopping_) look_for_failure();
    return finish();
  }

 private:
  void start(int64_t local, const std::vector<std::string>& command) {
    const int64_t rank = options_.node_rank * options_.ranks_per_node + local;
    std::vector<std::string> variables = {
        fmt::format("RANK={}", rank),
        fmt::format("LOCAL_RANK={}", local),
        fmt::format("WORLD_SIZE={}", options_.world_size()),
        fmt::format("LOCAL_WORLD_SIZE={}", options_.ranks_per_node),
        fmt::format("GROUP_RANK={}", options_.node_rank),
        fmt::format("GROUP_WORLD_SIZE={}", options_.nodes),
        fmt::format("MASTER_ADDR={}", job_.store.host()),
        fmt::format("MASTER_PORT={}", job_.store.port()),
        "TORCHELASTIC_USE_AGENT_STORE=True",
        fmt::format("TORCHELASTIC_RESTART_COUNT={}", number_),
    };
    if (!std::getenv("OMP_NUM_THREADS"))
      variables.push_back(fmt::format("OMP_NUM_THREADS={}", threads_per_rank(options_.ranks_per_node)));
    const auto output = options_.show_all              ? Rank::Output::prefixed
                        : rank == 0 && !options_.quiet ? Rank::Output::inherited
                                                       : Rank::Output::log_only;
    ranks_.emplace_back(rank, logs_, output);
    ranks_.back().start(command, std::move(variables));
  }

  void wait_for_event() {
    std::vector<pollfd> events = {{job_.signals.descriptor(), POLLIN, 0}};
    for (const Rank& rank : ranks_) {
      if (rank.running()) events.push_back({rank.end_descriptor(), POLLIN, 0});
      if (rank.output_descriptor() >= 0) events.push_back({rank.output_descriptor(), POLLIN, 0});
    }
    std::optional<Clock::time_point> wake = kill_at_;
    if (!stopping_ && settle_at_) wake = wake ? std::min(*wake, *settle_at_) : *settle_at_;
    auto timeout = options_.nodes > 1 && !stopping_ ? kOtherNodesPoll : milliseconds(-1);
    if (wake) {
      const auto left = std::max(milliseconds(0), std::chrono::ceil<milliseconds>(*wake - Clock::now()));
      timeout = timeout.count() < 0 ? left : std::min(timeout, left);
    }
    poll(events.data(), events.size(), static_cast<int>(timeout.count()));
    for (Rank& rank : ranks_) rank.show_output();
  }

  void pass_on(int signal) {
    // A scheduler may send a signal to a program and to its whole group: that is one request.
    const bool is_repeated = job_.interrupted_by == signal && Clock::now() - interrupted_at_ < kSameRequest;
    if (is_repeated) return;
    for (Rank& rank : ranks_) rank.signal(signal);
    if (!asks_to_end(signal)) return;
    interrupted_at_ = Clock::now();
    if (job_.interrupted_by) {
      kill_at_ = Clock::now();
    } else {
      print_to(stderr, "modrun: SIG{} was passed on to the ranks; a second one ends them at once\n",
               sigabbrev_np(signal));
    }
    job_.interrupted_by = signal;
    stopping_ = true;
  }

  /// Stops the job when a rank, here or on another machine, has failed and the cause is known or has had time to show
  /// up.
  void look_for_failure() {
    if (options_.nodes > 1) remote_failure_ = job_.store.failure_elsewhere();
    const Rank* first = first_cause(ranks_);
    if (!first && remote_failure_.empty()) return;
    if (remote_failure_.empty() && first->is_consequence()) {
      if (!settle_at_) settle_at_ = Clock::now() + kCauseMayFollow;
      const bool others_run = options_.nodes > 1 || std::ranges::any_of(ranks_, &Rank::running);
      if (others_run && Clock::now() < *settle_at_) return;
    }
    stopping_ = true;
    if (first) failed_rank_ = first->number();
    for (Rank& rank : ranks_) rank.note_state_at_failure();
    if (first && remote_failure_.empty()) job_.store.tell_failure(first->summary(options_.world_size(), ranks_));
    for (Rank& rank : ranks_) rank.signal(SIGTERM);
    kill_at_ = Clock::now() + options_.stop_grace;
  }

  int finish() {
    if (const Rank* first = first_cause(ranks_); job_.interrupted_by && first) {
      const auto own = std::ranges::find_if(ranks_, &Rank::failed_by_itself);
      if (own != ranks_.end()) return report(first->failed_by_itself() ? *first : *own);  // it could not save, say
    }
    if (std::ranges::all_of(ranks_, &Rank::ended_well)) return 0;  // at its last step, say
    std::optional<int> stopped_by = job_.interrupted_by;
    for (const Rank& rank : ranks_)
      if (!stopped_by && !failed_rank_) stopped_by = rank.stopped_by();
    if (stopped_by) {
      print_to(stderr, "modrun: stopped by SIG{}\n", sigabbrev_np(*stopped_by));
      return 128 + *stopped_by;
    }
    if (!remote_failure_.empty()) {
      job_.folder.keep();
      print_to(stderr, "{}", remote_failure_);
      return 1;
    }
    if (!failed_rank_) return 0;
    return report(*std::ranges::find(ranks_, *failed_rank_, &Rank::number));
  }

  int report(const Rank& rank) {
    if (rank.has_log()) job_.folder.keep();  // the summary names it
    const std::string summary = rank.summary(options_.world_size(), ranks_);
    print_to(stderr, "{}{}", rank.last_output(), summary);
    return rank.exit_status();
  }

  const LaunchOptions& options_;
  Job& job_;
  int64_t number_;
  fs::path logs_ = job_.folder.path();
  std::vector<Rank> ranks_;
  bool stopping_ = false;
  std::optional<int64_t> failed_rank_;
  std::string remote_failure_;
  std::optional<Clock::time_point> settle_at_, kill_at_;
  Clock::time_point interrupted_at_;
};

}  // namespace

int launch(const LaunchOptions& options, const std::vector<std::string>& command) {
  try {
    Job job{options};
    for (int64_t number = 0;; ++number) {
      Attempt attempt(job, number);
      const int status = attempt.run(command);
      // Where a node's ranks have ended well, they would not come again.
      if (!attempt.failed() || number == options.max_restarts || job.store.another_is_done()) {
        job.leave(/*well=*/!attempt.failed() && !job.interrupted_by);
        return status;
      }
      print_to(stderr, "modrun: starting the ranks again ({} of {} times)\n", number + 1, options.max_restarts);
    }
  } catch (const Interrupted& interrupted) {
    print_to(stderr, "modrun: stopped by SIG{}\n", sigabbrev_np(interrupted.signal));
    return 128 + interrupted.signal;
  } catch (const std::runtime_error& error) {
    print_to(stderr, "modrun: {}\n", error.what());
    return kCannotStart;
  }
}

int64_t threads_per_rank(int64_t ranks) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return 1;
  return std::max<int64_t>(1, CPU_COUNT(&usable) / ranks);
}

int launch_self(const LaunchOptions& options, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {fs::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return launch(options, command);
}

}  // namespace modular
