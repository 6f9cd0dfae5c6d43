// Launcher state that persists across the attempts of a job.
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
#include "runtime/launch/process.h"
#include "runtime/launch/temporary_folder.h"

namespace modular {

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

}  // namespace modular
