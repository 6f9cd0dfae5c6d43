// One rank as its launcher sees it: process, output, and what it left when it ended.
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
  /// Where standard output and error go: to the launcher's, to a log file, or both with the rank before each line.
  enum class Output { inherited, log_only, prefixed };

  Rank(int64_t number, const std::filesystem::path& folder, Output output);

  /// Starts `command` with `variables` and the names of the files in which it leaves its status and its failure.
  void start(const std::vector<std::string>& command, std::vector<std::string> variables);

  int64_t number() const { return number_; }
  bool running() const { return pid_ > 0 && !ended_; }
  pid_t process() const { return pid_; }
  int end_descriptor() const { return end_; }
  /// Whether its output goes to a file.
  bool has_log() const { return output_ != Output::inherited; }
  /// Readable when there is output to show; -1 where the launcher shows none.
  int output_descriptor() const { return output_pipe_; }

  /// Passes on what the rank has written so far.
  void show_output();
  /// Sends a signal to the rank's process group while it runs.
  void signal(int number) const;
  /// Sends SIGKILL.
  void end_at_once();
  /// Notes its end, if it has ended.
  void reap();
  /// Looks whether it is frozen, `elapsed` after the last look.
  void look(std::chrono::milliseconds elapsed);
  bool frozen() const { return !frozen_.empty(); }
  void wait();

  /// Records whether it still ran, and what it did, when the launcher decided to stop the job.
  void note_state_at_failure();

  /// Whether it is frozen, or ended other than by exit status 0 or stopped_by().
  bool failed() const;
  /// The signal after which it ended in order, as it says by exit status 128 + SIGTERM, SIGINT or SIGHUP.
  std::optional<int> stopped_by() const;
  bool ended() const { return ended_; }
  /// Whether it ended by exit status 0.
  bool ended_well() const;
  /// Whether it failed with a reason of its own: not as a consequence, nor by a signal that asks to end or
  /// end_at_once().
  bool failed_by_itself() const;
  /// Whether it failed because a collective did: some other rank may be the cause.
  bool is_consequence() const;
  /// When it failed, in nanoseconds since 1970.
  int64_t failed_at() const;
  /// As a shell has it: the exit status, or 128 + the signal.
  int exit_status() const;

  /// The last lines of a log that was not shown, with a heading; empty otherwise.
  std::string last_output() const;
  /// The reason why it failed.
  std::string why() const;
  /// Which rank failed, where and why: lines for the end of the screen. `all` are the ranks of this machine.
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

/// The failed rank that is the cause: the first of those that failed by themselves, or else the first. Null where none
/// failed.
const Rank* first_cause(const std::vector<Rank>& ranks);

}  // namespace modular
