// One rank as seen by its launcher: process, output, status and error report.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch/failure.h"
#include "runtime/mesh/status.h"

namespace modular {

class Rank {
 public:
  /// Destination of standard output and error: the launcher's streams, a log file, or both, with the rank as a prefix
  /// of each line.
  enum class Output { inherited, log_only, prefixed };

  Rank(int64_t number, const std::filesystem::path& folder, Output output);

  /// Starts `command` with `variables` and the paths of the rank's status and error files in its environment.
  void start(const std::vector<std::string>& command, std::vector<std::string> variables);

  int64_t number() const { return number_; }
  bool running() const { return pid_ > 0 && !ended_; }
  pid_t process() const { return pid_; }
  int end_descriptor() const { return end_; }
  /// Whether the rank's output goes to a file.
  bool has_log() const { return output_ != Output::inherited; }
  /// Readable when output is available; -1 if the launcher shows none.
  int output_descriptor() const { return output_pipe_; }

  /// Forwards the rank's output so far.
  void show_output();
  /// Sends a signal to the rank's process group while it runs.
  void signal(int number) const;
  /// Sends SIGKILL.
  void kill_now();
  /// Records the rank's exit, if it has exited.
  void reap();
  /// Updates frozen(); `elapsed` is the time since the last call.
  void check_frozen(std::chrono::milliseconds elapsed);
  bool frozen() const { return !frozen_.empty(); }
  void wait();

  /// Records whether the rank is running, and its status, when the launcher decides to stop the job.
  void note_state_at_failure();

  /// Whether the rank is frozen, or exited other than with status 0 or by stopped_by().
  bool failed() const;
  /// Signal after which the rank shut down cleanly: its exit status is 128 + SIGTERM, SIGINT or SIGHUP.
  std::optional<int> stopped_by() const;
  bool ended() const { return ended_; }
  /// Whether the rank exited with status 0.
  bool ended_well() const;
  /// Whether the rank failed for its own reason: not as a consequence, and not by a termination signal or
  /// kill_now().
  bool failed_by_itself() const;
  /// Whether the rank failed because a collective failed: another rank may be the cause.
  bool is_consequence() const;
  /// Time of the failure, in nanoseconds since the Unix epoch.
  int64_t failed_at() const;
  /// Exit status as in a shell: the status, or 128 + the signal.
  int exit_status() const;

  /// Last lines of the log, with a heading; empty if the output was shown.
  std::string last_output() const;
  /// Reason for the failure.
  std::string why() const;
  /// Summary to print last: which rank failed, where and why. `all` are the ranks of this machine.
  std::string summary(int64_t world_size, const std::vector<Rank>& all) const;

 private:
  int64_t number_;
  Output output_;
  std::filesystem::path log_, failure_file_, status_file_;
  pid_t pid_ = -1;
  int end_ = -1, output_pipe_ = -1, log_descriptor_ = -1;
  bool ended_ = false, ran_at_failure_ = false, was_killed_ = false;
  int wait_status_ = 0;
  int64_t ended_at_ = 0;
  std::string unfinished_line_;
  std::string frozen_;  // the reason
  int64_t frozen_at_ = 0;
  bool is_stopped_ = false;
  std::chrono::milliseconds stopped_for_ = {}, silent_for_ = {};
  uint64_t beats_ = 0;
  std::optional<FailureReport> report_;
  Status status_;
};

/// Returns the failed rank that is the cause: the first that failed by itself, or else the first that failed. Null if
/// none failed.
const Rank* first_cause(const std::vector<Rank>& ranks);

}  // namespace modular
