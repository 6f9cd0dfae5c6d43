// Child processes, each waited for by its own PID: children inherited from another program (a shell that ran exec) are
// left alone.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "generator/source/files.h"

namespace modgen {

/// Exit status of a process.
struct Ending {
  int exit_code = 0;  // 128 + signal, as in a shell, if a signal ended it
  int signal = 0;     // 0 if it exited
};

/// "was ended by signal 9 (Killed)", with the likely cause if known; for a process that a signal ended.
std::string describe(const Ending& ending);

/// A child process. It is killed if it still runs at the end of the scope.
class Process {
 public:
  /// Takes ownership of a child that fork() or posix_spawn() has just created.
  explicit Process(pid_t id);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  Ending wait();
  /// In a forked child: drops ownership of another child of its parent.
  void release() { id_ = 0; }

 private:
  friend std::vector<size_t> ended(const std::vector<const Process*>& processes, bool wait);
  pid_t id_;
  FileDescriptor has_ended_;  // a pidfd: readable once the process has ended
};

/// The indices of the processes that have ended, in order. With `wait`, waits for at least one.
std::vector<size_t> ended(const std::vector<const Process*>& processes, bool wait);

/// Makes the kernel keep the exit status of children until it is collected, even if SIGCHLD is ignored (a setting that
/// is inherited). To be called before a child is created.
void keep_status_of_children();

/// A file in memory; `name` shows in /proc.
FileDescriptor memory_file(const char* name);
/// Its bytes from the beginning, independent of its offset.
std::string contents(const FileDescriptor& file);

/// A running program.
class Program {
 public:
  enum class Streams {
    inherited,
    together,  // output() has stdout and stderr
    apart,     // output() has stdout, errors() has stderr
  };

  /// `words` are the program, looked up in PATH if its name does not contain a slash, and its arguments. It starts
  /// without blocked signals. Throws std::runtime_error if it cannot be started.
  Program(std::vector<std::string> words, Streams streams);

  const Process& process() const { return process_; }
  Ending wait() { return process_.wait(); }
  std::string output() const { return contents(output_); }
  std::string errors() const { return contents(errors_); }

 private:
  FileDescriptor output_, errors_;
  Process process_;
};

}  // namespace modgen
