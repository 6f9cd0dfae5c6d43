// Child processes, each waited for by its own id: children that this process was given by another (a shell that ran
// exec) are left alone.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "generator/source/file_descriptor.h"

namespace modgen {

/// How a process ended.
struct Ending {
  int exit_code = 0;  // 128 + signal, as in a shell, where a signal ended it
  int signal = 0;     // 0 where it exited
};

/// "was ended by signal 9 (Killed)", with the likely cause where there is one; for a process that a signal ended.
std::string describe(const Ending& ending);

/// A child process. If it still runs at the end of the scope, it is killed.
class Process {
 public:
  /// Takes over a child that fork() or posix_spawn() has just made.
  explicit Process(pid_t id);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  Ending wait();
  /// In a child that was forked: forgets another child of its parent.
  void release() { id_ = 0; }

 private:
  friend std::vector<size_t> ended(const std::vector<const Process*>& processes, bool wait);
  pid_t id_;
  FileDescriptor has_ended_;  // can be read from once it has
};

/// The indices of the processes that have ended, in order; waits for at least one where `wait`.
std::vector<size_t> ended(const std::vector<const Process*>& processes, bool wait);

/// Has the kernel keep the status of children until it is asked for, even where the parent told it not to (an ignored
/// SIGCHLD is inherited). To be called before a child is made.
void keep_status_of_children();

/// A file in memory; `name` shows in /proc.
FileDescriptor memory_file(const char* name);
/// Its bytes from the beginning, wherever its position is.
std::string contents(const FileDescriptor& file);

/// A program that was started.
class Program {
 public:
  enum class Streams {
    inherited,
    together,  // output() holds what it prints to both
    apart,     // output() and errors()
  };

  /// `words` are the program, looked up in PATH where its name has no slash, and its arguments. No signal is blocked in
  /// it. Throws std::runtime_error where it cannot be started.
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
