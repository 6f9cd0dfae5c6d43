// Child processes, and the signals of the launcher process.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace modular {

// Starts a program as a child process that ends with its parent.

/// Returns a child's environment: this process's variables without `removed`, overridden by `set` ("NAME=value").
std::vector<std::string> child_environment(const std::vector<std::string>& set,
                                           const std::vector<std::string>& removed = {});

/// Descriptors of a child's standard streams. -1 means no input, or the parent's output and error.
struct Streams {
  int input = -1, output = -1, error = -1;
};

/// Starts `command`, found on PATH, in its own process group, with the given environment and streams and no blocked
/// signals. The child is killed when the calling thread exits. Throws std::runtime_error if the program cannot be
/// started.
pid_t start_process(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                    const Streams& streams);

/// Returns a descriptor that becomes readable once the process has ended. The caller closes it.
int open_pidfd(pid_t process);

// Runs a function in a forked copy of this process, e.g. the launcher of another job.

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

// Signals of the launcher process, read synchronously from a descriptor instead of interrupting other work.

/// Blocks SIGINT, SIGTERM and SIGHUP (unless ignored), SIGUSR1 and SIGUSR2 on the calling thread and delivers them
/// through a descriptor. All other threads must block them too.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Readable when a signal is pending.
  int descriptor() const { return descriptor_; }
  /// Returns the next pending signal, if any.
  std::optional<int> next() const;

 private:
  sigset_t set_ = {}, before_ = {};
  int descriptor_ = -1;
};

/// Whether the signal requests termination.
constexpr bool asks_to_end(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

}  // namespace modular
