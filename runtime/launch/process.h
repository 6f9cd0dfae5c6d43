// Starting a program as a child that ends with its parent.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace modular {

/// Variables of a child: those of this process, without `removed`, and with `set` ("NAME=value") in place of its own.
std::vector<std::string> child_environment(const std::vector<std::string>& set,
                                           const std::vector<std::string>& removed = {});

/// Descriptors of a child's standard streams. -1: no input; the parent's own output and error.
struct Streams {
  int input = -1, output = -1, error = -1;
};

/// Starts `command`, found on PATH, in a process group of its own, with the given environment and streams and no
/// blocked signals. The child is killed when the calling thread ends. Throws std::runtime_error where the program
/// cannot be started.
pid_t start_process(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                    const Streams& streams);

/// A descriptor that poll() finds readable once the process has ended. The caller closes it.
int open_pidfd(pid_t process);

}  // namespace modular
