#include "runtime/launch/launcher.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "runtime/launch/attempt.h"
#include "runtime/launch/failure.h"
#include "runtime/mesh/libraries.h"
#include "runtime/mesh/print.h"

namespace modular {
namespace {

using std::chrono::milliseconds;
namespace fs = std::filesystem;

// Time for launchers that have not joined yet to be notified that the job is rejected.
constexpr milliseconds kOthersJoin = std::chrono::seconds(10);
constexpr int kCannotStart = 2;

void print_restart(int64_t restart, const LaunchOptions& options) {
  print_to(stderr, "modrun: starting the ranks again ({} of {} times)\n", restart, options.max_restarts);
}

/// Returns an error message, or an empty string on success.
std::string open_log_folder(Job& job) {
  try {
    job.folder.emplace(job.options.log_folder);
  } catch (const fs::filesystem_error& error) {
    return fmt::format("the log folder cannot be created: {}", get_message(error));
  } catch (const std::runtime_error& error) {
    return get_message(error);
  }
  return {};
}

int run_on_one_machine(Job& job, const std::vector<std::string>& command) {
  if (const std::string problem = open_log_folder(job); !problem.empty()) throw std::runtime_error(problem);
  const Meeting meeting{"127.0.0.1", job.store->getPort(), random_name(), random_name()};
  for (int64_t number = 0;; ++number) {
    Attempt attempt(job, number, meeting);
    const int status = attempt.run(command);
    if (!attempt.failed() || number == job.options.max_restarts) return status;
    print_restart(number + 1, job.options);
  }
}

/// Runs `check` on its own thread while processing messages from the other machines. Returns the message of the
/// exception that it threw, or an empty string.
std::string check_while_following_orders(Job& job, const std::function<void()>& check) {
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
  while (checked.wait_for(milliseconds(0)) != std::future_status::ready) {
    job.wait();
    if (job.member->is_over()) return {};  // the detached thread keeps running
  }
  try {
    checked.get();
  } catch (const std::exception& error) {
    return get_message(error);
  }
  return {};
}

/// Runs one launcher of a multi-node job: follows the coordinator's orders.
int run_on_machines(Job& job, const std::vector<std::string>& command, const std::function<void()>& before_first) {
  Member& member = *job.member;
  int status = 0;
  int64_t restarts = 0;
  bool is_checked = !before_first, is_reported = false;  // is_reported: whether the last failure was printed
  const auto reject = [&](const std::string& problem) {
    print_to(stderr, "modrun: {}\n", problem);
    member.report_rejected(problem);
    job.leave(kOthersJoin);
    return kCannotStart;
  };
  if (const std::string problem = open_log_folder(job); !problem.empty()) return reject(problem);
  for (;;) {
    const Order order = job.await_order();
    std::string lost;
    switch (order.kind) {
      case Order::Kind::prepare:
        // On later attempts the folder already contains this job's own run.
        if (order.attempt == 0 && !std::exchange(is_checked, true))
          if (const std::string problem = check_while_following_orders(job, before_first); !problem.empty())
            return reject(problem);
        member.report_ready();
        break;
      case Order::Kind::start: {
        restarts = order.restarts;
        if (restarts > 0) print_restart(restarts, job.options);
        is_reported = false;
        std::optional<Attempt> attempt_of_order;
        try {
          attempt_of_order.emplace(job, order.attempt,
                                   Meeting{job.options.master_addr, order.store_port, order.prefix, order.job});
          status = attempt_of_order->run(command);
        } catch (const std::runtime_error& error) {  // a rank could not be started
          return reject(get_message(error));
        }
        const Attempt& attempt = *attempt_of_order;
        lost = attempt.coordinator_lost();
        if (attempt.job_is_over()) {
          job.leave(kOthersLeave);
          return status != 0 ? status : 1;
        }
        if (job.interrupted_by && !attempt.ended_cleanly()) {  // ranks on other machines wait for these
          member.report_rejected(fmt::format("was stopped by SIG{}", sigabbrev_np(*job.interrupted_by)));
          job.leave(kOthersLeave);
          return status;
        }
        member.report_ended(status == 0);
        is_reported = attempt.failed();
        break;
      }
      case Order::Kind::stop:  // another machine failed while this one had no running ranks
        if (!is_reported) print_to(stderr, "{}", order.text);
        if (status == 0) status = 1;
        member.report_ended(false);
        break;
      case Order::Kind::end:
        if (status == 0 && !order.well) {
          print_to(stderr, "modrun: the job has ended: ranks on another machine failed\n");
          status = 1;
        }
        job.leave(kOthersLeave);
        return status;
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
    print_to(stderr, "modrun: waiting up to {} s for node 0 to rejoin (--rejoin-timeout)\n",
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
  } catch (const InterruptedJob& interrupted) {
    print_to(stderr, "modrun: stopped by SIG{}\n", sigabbrev_np(interrupted.signal));
    return 128 + interrupted.signal;
  } catch (const std::runtime_error& error) {
    print_to(stderr, "modrun: {}\n", get_message(error));
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
  } catch (const InterruptedJob&) {
  } catch (const std::runtime_error& error) {
    print_to(stderr, "modrun: the other machines cannot be notified: {}\n", get_message(error));
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
  std::vector<std::string> command = {own_program().string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return launch(options, command, before_first);
}

}  // namespace modular
