#include "runtime/launch/job.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

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

}  // namespace modular
