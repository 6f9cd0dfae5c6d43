#include "runtime/launch/attempt.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "runtime/mesh/print.h"
#include "runtime/mesh/rendezvous.h"

namespace modular {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kReported = std::chrono::seconds(1);  // longer waits are reported

/// Opens the ranks' rendezvous store; on a single machine it listens on the loopback interface only.
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

}  // namespace

Job::Job(const LaunchOptions& given) : options(given) {
  if (options.node_rank == 0) store = open_store(options);
  if (options.nodes == 1) return;
  if (options.node_rank == 0) coordinator.emplace(options, store->getPort());
  member.emplace(options);
}

void Job::wait(std::vector<pollfd> events, milliseconds timeout) {
  if (coordinator) coordinator->add_descriptors(events);
  if (member) member->add_descriptors(events);
  poll(events.data(), events.size(), static_cast<int>(timeout.count()));
  if (coordinator) coordinator->step();
  if (member) member->step();
}

void Job::wait() {
  wait({{signals.descriptor(), POLLIN, 0}}, kTick);
  const auto signal = signals.next();
  if (!signal || !asks_to_end(*signal)) return;
  if (member && member->joined()) {
    member->report_rejected(fmt::format("was stopped by SIG{}", sigabbrev_np(*signal)));
    leave(kOthersLeave);
  }
  throw InterruptedJob{*signal};
}

Order Job::await_order() {
  for (;;) {
    if (auto order = member->next()) return *order;
    if (member->is_over()) return {.kind = Order::Kind::lost, .text = "the job has ended"};
    wait();
  }
}

void Job::leave(milliseconds timeout) {
  const auto begin = Clock::now();
  bool is_reported = false;
  const auto has_left = [&] { return coordinator ? coordinator->finished() : !member || member->is_over(); };
  while (!has_left() && Clock::now() - begin < timeout) {
    wait({{signals.descriptor(), POLLIN, 0}}, kTick);
    if (coordinator && Clock::now() - begin > kReported && !std::exchange(is_reported, true))
      if (const std::string others = coordinator->get_unnotified(); !others.empty())
        print_to(stderr, "modrun: waiting up to {} s to report this to {}\n",
                 std::chrono::ceil<std::chrono::seconds>(timeout).count(), others);
    if (const auto signal = signals.next(); signal && asks_to_end(*signal)) return;
  }
}

namespace {

namespace fs = std::filesystem;

// When a peer dies, ranks whose collectives fail may exit before the launcher sees the peer's own exit.
constexpr milliseconds kCauseMayFollow = std::chrono::seconds(2);
// Maximum time between the exits of the first and the last rank after SIGINT or SIGTERM.
constexpr milliseconds kInterruptGrace = std::chrono::seconds(30);
constexpr milliseconds kSameRequest = std::chrono::seconds(1);

}  // namespace

Attempt::Attempt(Job& job, int64_t number, Meeting meeting)
    : options_(job.options), job_(job), number_(number), meeting_(std::move(meeting)) {
  if (number > 0) logs_ = job.folder->path() / fmt::format("attempt-{}", number);
  fs::create_directories(logs_);
}

Attempt::~Attempt() {
  for (Rank& rank : ranks_) rank.signal(SIGKILL);
  for (Rank& rank : ranks_) rank.wait();
}
bool Attempt::ended_cleanly() const {
  return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.ended_well() || rank.stopped_by(); });
}

int Attempt::run(const std::vector<std::string>& command) {
  for (int64_t local = 0; local < options_.ranks_per_node; ++local) start(local, command);
  while (std::ranges::any_of(ranks_, &Rank::running)) {
    wait_for_event();
    while (const auto signal = job_.signals.next()) forward(*signal);
    poll_ranks();
    if (job_.member) follow_orders();
    if (!stopping_) check_for_failure();
    // After a signal the ranks have no deadline, unless they wait for a peer that is gone.
    const bool is_waiting_for_lost_peer = !remote_failure_.empty() || std::ranges::any_of(ranks_, &Rank::frozen);
    if (stopping_ && is_waiting_for_lost_peer && !kill_at_) kill_at_ = Clock::now() + options_.stop_grace;
    if (job_.interrupted_by && !kill_at_ && std::ranges::any_of(ranks_, &Rank::ended))
      kill_at_ = Clock::now() + kInterruptGrace;
    if (kill_at_ && Clock::now() >= *kill_at_)
      for (Rank& rank : ranks_) rank.kill_now();
  }
  for (Rank& rank : ranks_) rank.show_output();
  if (!stopping_) check_for_failure();
  return finish();
}

void Attempt::start(int64_t local, const std::vector<std::string>& command) {
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

void Attempt::wait_for_event() {
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

void Attempt::poll_ranks() {
  const auto now = Clock::now();
  const bool is_due = now - polled_at_ >= kTick;
  for (Rank& rank : ranks_) {
    rank.reap();
    if (is_due) rank.check_frozen(std::chrono::duration_cast<milliseconds>(now - polled_at_));
  }
  if (is_due) polled_at_ = now;
}

void Attempt::follow_orders() {
  while (const auto order = job_.member->next()) {
    const bool is_stop = order->kind == Order::Kind::stop;
    job_is_over_ |= order->kind == Order::Kind::reject || order->kind == Order::Kind::end;
    if (!is_stop && order->kind != Order::Kind::lost && order->kind != Order::Kind::reject) continue;
    if (order->kind == Order::Kind::lost) coordinator_lost_ = order->text;
    if (remote_failure_.empty())
      remote_failure_ = is_stop ? order->text : fmt::format("modrun: {}; the job was stopped\n", order->text);
  }
}

void Attempt::forward(int signal) {
  // A scheduler may signal both a process and its process group: count that as one request.
  const bool is_repeated = job_.interrupted_by == signal && Clock::now() - interrupted_at_ < kSameRequest;
  if (is_repeated) return;
  for (Rank& rank : ranks_) rank.signal(signal);
  if (!asks_to_end(signal)) return;
  interrupted_at_ = Clock::now();
  if (job_.interrupted_by) {
    kill_at_ = Clock::now();
  } else {
    print_to(stderr, "modrun: forwarded SIG{} to the ranks; send a second signal to kill them\n", sigabbrev_np(signal));
  }
  job_.interrupted_by = signal;
  stopping_ = true;
}

/// Stops the job once a rank on any machine has failed and its cause is known or kCauseMayFollow has passed.
void Attempt::check_for_failure() {
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
  if (first && first->frozen()) {  // otherwise its peers wait until their timeout
    print_to(stderr, "modrun: rank {} is frozen: {}\n", first->number(), first->why());
    std::ranges::find(ranks_, first->number(), &Rank::number)->kill_now();
  }
  for (Rank& rank : ranks_) rank.signal(SIGTERM);
  kill_at_ = Clock::now() + options_.stop_grace;
}

int Attempt::finish() {
  if (job_.member) follow_orders();
  if (const Rank* first = first_cause(ranks_); job_.interrupted_by && first) {
    const auto own = std::ranges::find_if(ranks_, &Rank::failed_by_itself);
    if (own != ranks_.end()) return report(first->failed_by_itself() ? *first : *own);  // e.g. it failed to save
  }
  if (!remote_failure_.empty() && !failed_rank_) {
    job_.folder->keep();
    print_to(stderr, "{}", remote_failure_);
    return job_.interrupted_by ? 128 + *job_.interrupted_by : 1;
  }
  if (std::ranges::all_of(ranks_, &Rank::ended_well)) return 0;  // e.g. the signal came at the last step
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

int Attempt::report(const Rank& rank) {
  if (rank.has_log()) job_.folder->keep();  // the summary names it
  const std::string summary = rank.summary(options_.world_size(), ranks_);
  print_to(stderr, "{}{}", rank.last_output(), summary);
  return rank.exit_status();
}

}  // namespace modular
