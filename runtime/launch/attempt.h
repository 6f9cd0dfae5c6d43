// One attempt at a job: the ranks of this machine, from their start to their end.
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

/// How the ranks of an attempt find each other.
struct Meeting {
  std::string host;
  uint16_t port = 0;
  std::string prefix, job;  // of keys in the store, and the job's name: random, and known to the job's processes alone
};

class Attempt {
 public:
  Attempt(Job& job, int64_t number, Meeting meeting);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// Runs `command` as each rank and returns the job's exit status, with the reason printed where that is not 0.
  int run(const std::vector<std::string>& command);

  /// Whether a rank failed, here or elsewhere, unless a signal asked for the end.
  bool failed() const { return !job_.interrupted_by && (failed_rank_ || !remote_failure_.empty()); }
  /// Whether every rank ended well, or in order after a signal.
  bool ended_in_order() const;
  /// The reason why the coordinator is lost, if it is.
  const std::string& coordinator_lost() const { return coordinator_lost_; }
  /// Whether the coordinator has ended the job.
  bool job_is_over() const { return job_is_over_; }

 private:
  using Clock = std::chrono::steady_clock;

  void start(int64_t local, const std::vector<std::string>& command);
  void wait_for_event();
  void look_at_ranks();
  void hear();
  void pass_on(int signal);
  void look_for_failure();
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
  std::string remote_failure_;    // as lines to print
  std::string coordinator_lost_;  // the reason, where that is it
  std::optional<Clock::time_point> settle_at_, kill_at_;
  Clock::time_point interrupted_at_, looked_at_ = Clock::now();
};

}  // namespace modular
