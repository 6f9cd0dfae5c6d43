// One attempt to run a job, and the launcher's state that persists across attempts.
#pragma once

#include <poll.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch/coordinator.h"
#include "runtime/launch/launcher.h"
#include "runtime/launch/member.h"
#include "runtime/launch/process.h"
#include "runtime/launch/rank.h"
#include "runtime/launch/temporary_folder.h"

namespace modular {

// Launcher state that persists across the attempts of a job.

/// Poll interval for the ranks and the other machines.
inline constexpr std::chrono::milliseconds kTick(250);
/// Time for the other launchers to be notified how the job ended.
inline constexpr std::chrono::milliseconds kOthersLeave = std::chrono::seconds(10);

/// Folder of the ranks' logs and error files.
class LogFolder {
 public:
  explicit LogFolder(const std::string& given) : path_(given) {
    if (given.empty()) path_ = temporary_.emplace("pass a folder for logs with --log-dir").path();
    std::filesystem::create_directories(path_);
  }
  void keep() {
    if (temporary_) temporary_->keep();
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<TemporaryFolder> temporary_;
};

/// A signal that arrived while no rank was running.
struct InterruptedJob {
  int signal = 0;
};

class Job {
 public:
  /// Opens the job's store and, for a multi-node job, the coordinator on node 0. Members connect to it in wait().
  /// Throws std::runtime_error. `options` must outlive the job.
  explicit Job(const LaunchOptions& options);

  /// Waits for one of `events`, a message from another launcher, or `timeout`.
  void wait(std::vector<pollfd> events, std::chrono::milliseconds timeout);
  /// The same while no rank is running that a signal could be forwarded to. Throws InterruptedJob.
  void wait();
  /// The coordinator's next order.
  Order await_order();
  /// On node 0, waits at most `timeout` until the other launchers have been notified how the job ended. On other nodes,
  /// waits until node 0 has received this launcher's report.
  void leave(std::chrono::milliseconds timeout);

  const LaunchOptions& options;
  Signals signals;                           // declared before the store, whose threads inherit the mask
  std::optional<LogFolder> folder;           // set once opened
  c10::intrusive_ptr<c10d::TCPStore> store;  // for rendezvous; on node 0
  std::optional<Coordinator> coordinator;    // on node 0 of a multi-node job
  std::optional<Member> member;              // in a multi-node job
  std::optional<int> interrupted_by;         // signal that requested termination while ranks were running
};

// One attempt to run a job: starts this machine's ranks and waits until they exit.

/// Rendezvous information for the ranks of an attempt.
struct Meeting {
  std::string host;
  uint16_t port = 0;
  std::string prefix, job;  // key prefix in the store and job name: random, known only to the job's processes
};

class Attempt {
 public:
  Attempt(Job& job, int64_t number, Meeting meeting);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// Runs `command` as each rank and returns the job's exit status. Prints the reason if the status is not 0.
  int run(const std::vector<std::string>& command);

  /// Whether a rank failed on any machine. False if a signal requested termination.
  bool failed() const { return !job_.interrupted_by && (failed_rank_ || !remote_failure_.empty()); }
  /// Whether every rank exited with status 0 or shut down cleanly after a signal.
  bool ended_cleanly() const;
  /// Reason why the coordinator is lost; empty if it is not.
  const std::string& coordinator_lost() const { return coordinator_lost_; }
  /// Whether the coordinator has ended the job.
  bool job_is_over() const { return job_is_over_; }

 private:
  using Clock = std::chrono::steady_clock;

  void start(int64_t local, const std::vector<std::string>& command);
  void wait_for_event();
  void poll_ranks();
  void follow_orders();
  void forward(int signal);
  void check_for_failure();
  int finish();
  int report(const Rank& rank);

  const LaunchOptions& options_;
  Job& job_;
  int64_t number_;
  Meeting meeting_;
  std::filesystem::path logs_ = job_.folder->path();
  std::vector<Rank> ranks_;
  bool stopping_ = false, job_is_over_ = false;
  std::optional<int64_t> failed_rank_;
  std::string remote_failure_;    // lines to print
  std::string coordinator_lost_;  // reason; empty if the coordinator is reachable
  std::optional<Clock::time_point> settle_at_, kill_at_;
  Clock::time_point interrupted_at_, polled_at_ = Clock::now();
};

}  // namespace modular
