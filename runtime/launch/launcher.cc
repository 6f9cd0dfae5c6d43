#include "runtime/launch/launcher.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <optional>
#include <stdexcept>
#include <thread>

#include "runtime/launch/coordinator.h"
#include "runtime/launch/process.h"
#include "runtime/launch/rank.h"
#include "runtime/launch/signals.h"
#include "runtime/launch/temporary_folder.h"
#include "runtime/mesh/print.h"
#include "runtime/mesh/rendezvous.h"

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
// Between two looks at what the ranks and the other machines do.
constexpr milliseconds kTick = milliseconds(250);
// For the other launchers to hear how the job ended.
constexpr milliseconds kOthersLeave = std::chrono::seconds(10);
// For launchers that are yet to come to hear that the job is rejected.
constexpr milliseconds kOthersJoin = std::chrono::seconds(10);

constexpr milliseconds kLongWait = std::chrono::seconds(1);  // which the user should know of

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

/// A signal that came while there was no rank to pass it on to.
struct Interrupted {
  int signal = 0;
};

/// How the ranks of an attempt find each other.
struct Meeting {
  std::string host;
  uint16_t port = 0;
  std::string prefix, job;  // of keys in the store, and the job's name: random, and known to the job's processes alone
};

/// The store that ranks meet through: on one machine on the loopback alone.
c10::intrusive_ptr<c10d::TCPStore> open_store(const LaunchOptions& options) {
  c10d::TCPStoreOptions store;
  if (options.nodes == 1) {
    store = loopback_store(options.master_port);
  } else {
    store.port = 0;
    store.isServer = true;
    store.waitWorkers = false;
  }
  try {
    return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", store);
  } catch (const c10::Error& error) {
    throw std::runtime_error(fmt::format("cannot open the job's store: {}", error.what_without_backtrace()));
  }
}

/// The state of a job that outlives its attempts.
struct Job {
  const LaunchOptions& options;
  Signals signals = {};  // before the store, whose threads inherit the mask
  LogFolder folder{options.log_folder};
  c10::intrusive_ptr<c10d::TCPStore> store = {};  // on node 0
  std::optional<Coordinator> coordinator = {};    // on node 0 of several
  std::optional<Member> member = {};              // of a job on several machines
  std::optional<int> interrupted_by = {};

  explicit Job(const LaunchOptions& given) : options(given) {
    if (options.node_rank == 0) store = open_store(options);
    if (options.nodes == 1) return;
    if (options.node_rank == 0) coordinator.emplace(options, store->getPort());
    member.emplace(options);
  }

  /// Waits for one of `events`, for a message of another launcher, or for `timeout`.
  void wait(std::vector<pollfd> events, milliseconds timeout) {
    if (coordinator) coordinator->add_descriptors(events);
    if (member) member->add_descriptors(events);
    poll(events.data(), events.size(), static_cast<int>(timeout.count()));
    if (coordinator) coordinator->step();
    if (member) member->step();
  }

  /// The same where there is no rank that a signal could be passed on to. Throws Interrupted.
  void wait() {
    wait({{signals.descriptor(), POLLIN, 0}}, kTick);
    const auto signal = signals.next();
    if (!signal || !asks_to_end(*signal)) return;
    if (member && member->joined()) {
      member->report_rejected(fmt::format("was stopped by SIG{}", sigabbrev_np(*signal)));
      leave(kOthersLeave);
    }
    throw Interrupted{*signal};
  }

  Order await_order() {
    for (;;) {
      if (auto order = member->next()) return *order;
      wait();
    }
  }

  /// On node 0, stays until the other launchers have heard how the job ended, at most `timeout`; elsewhere, until
  /// node 0's has heard of this launcher's report.
  void leave(milliseconds timeout) {
    const auto begin = Clock::now();
    bool is_reported = false;
    const auto has_left = [&] { return coordinator ? coordinator->finished() : !member || member->is_over(); };
    while (!has_left() && Clock::now() - begin < timeout) {
      wait({{signals.descriptor(), POLLIN, 0}}, kTick);
      if (coordinator && Clock::now() - begin > kLongWait && !std::exchange(is_reported, true))
        if (const std::string others = coordinator->unheard(); !others.empty())
          print_to(stderr, "modrun: waiting up to {} s to report this to {}\n",
                   std::chrono::ceil<std::chrono::seconds>(timeout).count(), others);
      if (const auto signal = signals.next(); signal && asks_to_end(*signal)) return;
    }
  }
};

/// The ranks of this machine, from their start to their end.
class Attempt {
 public:
  Attempt(Job& job, int64_t number, Meeting meeting)
      : options_(job.options), job_(job), number_(number), meeting_(std::move(meeting)) {
    if (number > 0) logs_ = job.folder.path() / fmt::format("attempt-{}", number);
    fs::create_directories(logs_);
  }
  ~Attempt() {
    for (Rank& rank : ranks_) rank.signal(SIGKILL);
    for (Rank& rank : ranks_) rank.wait();
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// Whether a rank failed, here or elsewhere, unless a signal asked for the end.
  bool failed() const { return !job_.interrupted_by && (failed_rank_ || !remote_failure_.empty()); }
  /// Whether every rank ended well, or in order after a signal.
  bool ended_in_order() const {
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.ended_well() || rank.stopped_by(); });
  }
  /// The reason why the coordinator is lost, if it is.
  const std::string& coordinator_lost() const { return coordinator_lost_; }

  /// Returns the job's exit status, with the reason printed where that is not 0.
  int run(const std::vector<std::string>& command) {
    for (int64_t local = 0; local < options_.ranks_per_node; ++local) start(local, command);
    while (std::ranges::any_of(ranks_, &Rank::running)) {
      wait_for_event();
      while (const auto signal = job_.signals.next()) pass_on(*signal);
      look_at_ranks();
      if (job_.member) hear();
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
        fmt::format("MASTER_ADDR={}", meeting_.host),
        fmt::format("MASTER_PORT={}", meeting_.port),
        "MODULAR_STORE_PREFIX=" + meeting_.prefix,
        "MODULAR_JOB=" + meeting_.job,
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
    auto timeout = kTick;
    if (wake) timeout = std::clamp(std::chrono::ceil<milliseconds>(*wake - Clock::now()), milliseconds(0), kTick);
    job_.wait(std::move(events), timeout);
    for (Rank& rank : ranks_) rank.show_output();
  }

  void look_at_ranks() {
    const auto now = Clock::now();
    const bool is_due = now - looked_at_ >= kTick;
    for (Rank& rank : ranks_) {
      rank.reap();
      if (is_due) rank.look(std::chrono::duration_cast<milliseconds>(now - looked_at_));
    }
    if (is_due) looked_at_ = now;
  }

  /// Follows the coordinator's orders.
  void hear() {
    while (const auto order = job_.member->next()) {
      const bool is_stop = order->kind == Order::Kind::stop;
      if (!is_stop && order->kind != Order::Kind::lost && order->kind != Order::Kind::reject) continue;
      if (order->kind == Order::Kind::lost) coordinator_lost_ = order->text;
      if (remote_failure_.empty())
        remote_failure_ = is_stop ? order->text : fmt::format("modrun: {}; the job was stopped\n", order->text);
    }
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
    const Rank* first = first_cause(ranks_);
    if (!first && remote_failure_.empty()) return;
    if (remote_failure_.empty() && first->is_consequence()) {
      if (!settle_at_) settle_at_ = Clock::now() + kCauseMayFollow;
      const bool others_run = options_.nodes > 1 || std::ranges::any_of(ranks_, &Rank::running);
      if (others_run && Clock::now() < *settle_at_) return;
    }
    stopping_ = true;
    if (first && (remote_failure_.empty() || first->failed_by_itself())) failed_rank_ = first->number();
    for (Rank& rank : ranks_) rank.note_state_at_failure();
    if (first && remote_failure_.empty() && job_.member)
      job_.member->report_failed(first->summary(options_.world_size(), ranks_));
    if (first && first->frozen()) {  // the others wait for it, as long as they may
      print_to(stderr, "modrun: rank {} has frozen: {}\n", first->number(), first->why());
      std::ranges::find(ranks_, first->number(), &Rank::number)->end_at_once();
    }
    for (Rank& rank : ranks_) rank.signal(SIGTERM);
    kill_at_ = Clock::now() + options_.stop_grace;
  }

  int finish() {
    if (job_.member) hear();
    if (const Rank* first = first_cause(ranks_); job_.interrupted_by && first) {
      const auto own = std::ranges::find_if(ranks_, &Rank::failed_by_itself);
      if (own != ranks_.end()) return report(first->failed_by_itself() ? *first : *own);  // it could not save, say
    }
    if (!remote_failure_.empty() && !failed_rank_) {
      job_.folder.keep();
      print_to(stderr, "{}", remote_failure_);
      return job_.interrupted_by ? 128 + *job_.interrupted_by : 1;
    }
    if (std::ranges::all_of(ranks_, &Rank::ended_well)) return 0;  // at its last step, say
    std::optional<int> stopped_by = job_.interrupted_by;
    for (const Rank& rank : ranks_)
      if (!stopped_by && !failed_rank_) stopped_by = rank.stopped_by();
    if (stopped_by) {
      print_to(stderr, "modrun: stopped by SIG{}\n", sigabbrev_np(*stopped_by));
      return 128 + *stopped_by;
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
  Meeting meeting_;
  fs::path logs_ = job_.folder.path();
  std::vector<Rank> ranks_;
  bool stopping_ = false;
  std::optional<int64_t> failed_rank_;
  std::string remote_failure_;    // as lines to print
  std::string coordinator_lost_;  // the reason, where that is it
  std::optional<Clock::time_point> settle_at_, kill_at_;
  Clock::time_point interrupted_at_, looked_at_ = Clock::now();
};

void print_restart(int64_t restart, const LaunchOptions& options) {
  print_to(stderr, "modrun: starting the ranks again ({} of {} times)\n", restart, options.max_restarts);
}

int run_on_one_machine(Job& job, const std::vector<std::string>& command) {
  const Meeting meeting{"127.0.0.1", job.store->getPort(), random_name(), random_name()};
  for (int64_t number = 0;; ++number) {
    Attempt attempt(job, number, meeting);
    const int status = attempt.run(command);
    if (!attempt.failed() || number == job.options.max_restarts) return status;
    print_restart(number + 1, job.options);
  }
}

/// Runs `check` on a thread of its own, so that the other machines are heard meanwhile. Returns the sentence of the
/// exception that left it, or nothing.
std::string check_while_hearing(Job& job, const std::function<void()>& check) {
  auto promise = std::make_shared<std::promise<void>>();
  auto checked = promise->get_future();
  std::thread([promise, check] {
    try {
      check();
      promise->set_value();
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }).detach();
  while (checked.wait_for(milliseconds(0)) != std::future_status::ready) job.wait();
  try {
    checked.get();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

/// One launcher of several: does what the coordinator orders.
int run_on_machines(Job& job, const std::vector<std::string>& command, const std::function<void()>& before_first) {
  Member& member = *job.member;
  int status = 0;
  int64_t restarts = 0;
  bool is_checked = !before_first, is_reported = false;  // of the last failure
  for (;;) {
    const Order order = job.await_order();
    std::string lost;
    switch (order.kind) {
      case Order::Kind::prepare:
        // Where a job continues after a failure, its own run is in the folder.
        if (order.attempt == 0 && !std::exchange(is_checked, true))
          if (const std::string problem = check_while_hearing(job, before_first); !problem.empty()) {
            print_to(stderr, "modrun: {}\n", problem);
            member.report_rejected(problem);
            job.leave(kOthersLeave);
            return kCannotStart;
          }
        member.report_ready();
        break;
      case Order::Kind::start: {
        restarts = order.restarts;
        if (restarts > 0) print_restart(restarts, job.options);
        is_reported = false;
        Attempt attempt(job, order.attempt, {job.options.master_addr, order.store_port, order.prefix, order.job});
        status = attempt.run(command);
        lost = attempt.coordinator_lost();
        if (job.interrupted_by && !attempt.ended_in_order()) {  // the others' ranks wait for these
          member.report_rejected(fmt::format("was stopped by SIG{}", sigabbrev_np(*job.interrupted_by)));
          job.leave(kOthersLeave);
          return status;
        }
        member.report_ended(!attempt.failed());
        is_reported = attempt.failed();
        break;
      }
      case Order::Kind::stop:  // another machine failed when this one's ranks had ended, or had not begun
        if (!is_reported) print_to(stderr, "{}", order.text);
        if (status == 0) status = 1;
        member.report_ended(false);
        break;
      case Order::Kind::end:
        job.leave(kOthersLeave);
        return status != 0 || order.well ? status : 1;
      case Order::Kind::reject:
        print_to(stderr, "modrun: {}\n", order.text);
        job.leave(kOthersJoin);
        return member.has_started() ? 1 : kCannotStart;
      case Order::Kind::lost:
        print_to(stderr, "modrun: {}\n", order.text);
        lost = order.text;
        status = member.has_started() ? 1 : kCannotStart;
        break;
    }
    if (lost.empty()) continue;
    const bool may_continue = member.has_started() && job.options.node_rank != 0 && !job.interrupted_by;
    if (!may_continue || restarts == job.options.max_restarts) return status;
    ++restarts;
    print_to(stderr, "modrun: waiting up to {} s for node 0 to come back (--rejoin-timeout)\n",
             std::chrono::ceil<std::chrono::seconds>(job.options.rejoin_timeout).count());
    member.rejoin();
  }
}

}  // namespace

int launch(const LaunchOptions& options, const std::vector<std::string>& command,
           const std::function<void()>& before_first) {
  try {
    Job job(options);
    return options.nodes == 1 ? run_on_one_machine(job, command) : run_on_machines(job, command, before_first);
  } catch (const Interrupted& interrupted) {
    print_to(stderr, "modrun: stopped by SIG{}\n", sigabbrev_np(interrupted.signal));
    return 128 + interrupted.signal;
  } catch (const std::runtime_error& error) {
    print_to(stderr, "modrun: {}\n", error.what());
    return kCannotStart;
  }
}

void report_rejection(LaunchOptions options, const std::string& why) {
  if (options.nodes == 1) return;
  options.join_timeout = kOthersJoin;
  try {
    Job job(options);
    job.member->report_rejected(why);
    job.leave(kOthersJoin);
  } catch (const Interrupted&) {
  } catch (const std::runtime_error& error) {
    print_to(stderr, "modrun: the other machines cannot be notified: {}\n", error.what());
  }
}

int64_t threads_per_rank(int64_t ranks) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return 1;
  return std::max<int64_t>(1, CPU_COUNT(&usable) / ranks);
}

int launch_self(const LaunchOptions& options, const std::vector<std::string>& arguments,
                const std::function<void()>& before_first) {
  std::vector<std::string> command = {fs::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return launch(options, command, before_first);
}

}  // namespace modular
