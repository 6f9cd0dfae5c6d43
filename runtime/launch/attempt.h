// One attempt to run a job: starts this machine's ranks and waits until they exit.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch/job.h"
#include "runtime/launch/rank.h"

namespace modular {

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
