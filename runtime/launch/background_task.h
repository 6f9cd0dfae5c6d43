// Runs a function in a forked copy of this process, e.g. the launcher of another job.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace modular {

/// A child created by fork(2): it starts with this process's state and does not load the program again. It has its own
/// process group, inherits no open files (it would hold their locks), and is killed when the thread that started it
/// exits.
class BackgroundTask {
 public:
  /// Returns the exit status. `answer` is passed to the parent.
  using Work = std::function<int(std::string& answer)>;

  struct Outcome {
    int status = 0;      // exit status; 1 if the work threw, or 128 + the signal that killed it
    std::string answer;  // answer of the work, or the exception's message
  };

  /// Starts `work` with its output redirected to `log`. No other thread of this process may hold a lock that the work
  /// needs (the allocator's locks are safe). Throws std::runtime_error if the process cannot be started.
  BackgroundTask(const std::filesystem::path& log, const Work& work);
  /// Sends SIGKILL if the task is still running.
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  /// Becomes readable once the task has ended.
  int descriptor() const { return end_; }
  void signal(int number) const;
  /// Outcome of the task, returned once; nullopt while it runs. Poll until it is set.
  std::optional<Outcome> outcome();

 private:
  pid_t process_ = -1;
  int end_ = -1, answer_ = -1;
};

}  // namespace modular
