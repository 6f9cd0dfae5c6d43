// The state of a launcher that outlives the attempts at its job.
#pragma once

#include <poll.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch/coordinator.h"
#include "runtime/launch/launcher.h"
#include "runtime/launch/member.h"
#include "runtime/launch/signals.h"
#include "runtime/launch/temporary_folder.h"

namespace modular {

/// Between two looks at what the ranks and the other machines do.
inline constexpr std::chrono::milliseconds kTick(250);
/// For the other launchers to hear how the job ended.
inline constexpr std::chrono::milliseconds kOthersLeave = std::chrono::seconds(10);

/// Where the ranks' logs and error files go.
class LogFolder {
 public:
  explicit LogFolder(const std::string& given) : path_(given) {
    if (given.empty()) path_ = temporary_.emplace("give one for logs by --log-dir").path();
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

/// A signal that came while there was no rank to pass it on to.
struct InterruptedJob {
  int signal = 0;
};

class Job {
 public:
  /// Opens the job's store and, on several machines, its coordinator on node 0; the connection to that follows in
  /// wait(). Throws std::runtime_error. `options` has to outlive the job.
  explicit Job(const LaunchOptions& options);

  /// Waits for one of `events`, for a message of another launcher, or for `timeout`.
  void wait(std::vector<pollfd> events, std::chrono::milliseconds timeout);
  /// The same where there is no rank that a signal could be passed on to. Throws InterruptedJob.
  void wait();
  /// The coordinator's next order.
  Order await_order();
  /// On node 0, stays until the other launchers have heard how the job ended, at most `timeout`; elsewhere, until
  /// node 0's has heard of this launcher's report.
  void leave(std::chrono::milliseconds timeout);

  const LaunchOptions& options;
  Signals signals;                           // before the store, whose threads inherit the mask
  std::optional<LogFolder> folder;           // once opened
  c10::intrusive_ptr<c10d::TCPStore> store;  // through which ranks meet; on node 0
  std::optional<Coordinator> coordinator;    // on node 0 of several machines
  std::optional<Member> member;              // of a job on several machines
  std::optional<int> interrupted_by;         // the signal that asked for the end while there were ranks
};

}  // namespace modular
