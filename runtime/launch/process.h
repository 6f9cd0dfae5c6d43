// Starts a program as a child process that ends with its parent.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace modular {

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

}  // namespace modular
