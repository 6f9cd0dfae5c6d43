#include "runtime/launch/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

extern char** environ;

namespace modular {
namespace {

std::string name_for(const std::string& variable) { return variable.substr(0, variable.find('=')); }

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Runs in the child. Only system calls are allowed: locks that the parent's threads held stay locked.
[[noreturn]] void become(char* const* arguments, char* const* environment, const Streams& streams, int error_pipe,
                         pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(streams.input >= 0 ? streams.input : open("/dev/null", O_RDONLY), STDIN_FILENO);
  if (streams.output >= 0) dup2(streams.output, STDOUT_FILENO);
  if (streams.error >= 0) dup2(streams.error, STDERR_FILENO);
  execvpe(arguments[0], arguments, environment);
  const int error = errno;
  if (write(error_pipe, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

}  // namespace

std::vector<std::string> child_environment(const std::vector<std::string>& set,
                                           const std::vector<std::string>& removed) {
  std::vector<std::string> result = set;
  for (char** inherited = environ; *inherited; ++inherited) {
    const std::string name = name_for(*inherited);
    const bool replaced =
        std::ranges::any_of(set, [&](const std::string& variable) { return name_for(variable) == name; });
    if (!replaced && std::ranges::count(removed, name) == 0) result.push_back(*inherited);
  }
  return result;
}

pid_t start_process(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                    const Streams& streams) {
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0)
    throw std::runtime_error(fmt::format("cannot create a pipe: {}", std::strerror(errno)));
  const auto arguments = pointers(command), variables = pointers(environment);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) become(arguments.data(), variables.data(), streams, error_pipe[1], parent);
  const int fork_error = errno;
  close(error_pipe[1]);
  int error = 0;
  const bool started = child > 0 && read(error_pipe[0], &error, sizeof(error)) == 0;  // closed by exec
  close(error_pipe[0]);
  if (!started) {
    if (child > 0) waitpid(child, nullptr, 0);
    throw std::runtime_error(
        fmt::format("cannot start {}: {}", command[0], std::strerror(child > 0 ? error : fork_error)));
  }
  return child;
}

int open_pidfd(pid_t process) { return static_cast<int>(syscall(SYS_pidfd_open, process, 0)); }

}  // namespace modular
