#include "runtime/launch/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "runtime/files/open_file.h"

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

namespace {

/// The only descriptor that is open in the child apart from the standard streams.
constexpr int kTaskAnswer = 3;

void write_all(int file, const std::string& text) {
  for (size_t written = 0; written < text.size();) {
    const ssize_t count = write(file, text.data() + written, text.size() - written);
    if (count < 0 && errno != EINTR)
      throw std::runtime_error(fmt::format("cannot write the answer: {}", std::strerror(errno)));
    if (count > 0) written += static_cast<size_t>(count);
  }
}

std::string read_all(int file) {
  std::string text(static_cast<size_t>(lseek(file, 0, SEEK_END)), '\0');
  const ssize_t count = pread(file, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return text;
}

[[noreturn]] void work_in_child(const BackgroundTask::Work& work, int log, int answer, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  dup2(answer, kTaskAnswer);
  fcntl(kTaskAnswer, F_SETFD, FD_CLOEXEC);
  close_range(kTaskAnswer + 1, ~0U, 0);
  int status = 1;
  std::string text;
  try {
    status = work(text);
  } catch (const std::exception& error) {
    text = error.what();
  }
  fflush(nullptr);
  write_all(kTaskAnswer, text);
  _exit(status);
}

}  // namespace

BackgroundTask::BackgroundTask(const std::filesystem::path& log, const Work& work) {
  const OpenFile log_file = open_to_write(log, O_CREAT | O_TRUNC | O_APPEND);
  answer_ = memfd_create("answer", MFD_CLOEXEC);
  fflush(nullptr);  // otherwise the child writes the buffers again
  const pid_t parent = getpid();
  process_ = answer_ < 0 ? -1 : fork();
  if (process_ == 0) work_in_child(work, log_file.get(), answer_, parent);
  const int error = errno;
  if (process_ > 0) end_ = open_pidfd(process_);
  if (end_ >= 0) return;
  if (process_ > 0) kill(process_, SIGKILL), waitpid(process_, nullptr, 0);
  if (answer_ >= 0) close(answer_);
  throw std::runtime_error(fmt::format("cannot start a process: {}", std::strerror(error)));
}

BackgroundTask::~BackgroundTask() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  close(end_);
  close(answer_);
}

void BackgroundTask::signal(int number) const {
  if (process_ > 0) kill(process_, number);
}

std::optional<BackgroundTask::Outcome> BackgroundTask::outcome() {
  int status = 0;
  if (process_ < 0 || waitpid(process_, &status, WNOHANG) != process_) return std::nullopt;
  process_ = -1;
  return Outcome{.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
                 .answer = read_all(answer_)};
}

namespace {

/// Whether the signal is ignored, as under nohup or in a script's background job.
bool is_ignored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Signals::Signals() {
  sigemptyset(&set_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (!is_ignored(signal)) sigaddset(&set_, signal);
  for (const int signal : {SIGUSR1, SIGUSR2}) sigaddset(&set_, signal);
  sigprocmask(SIG_BLOCK, &set_, &before_);
  descriptor_ = signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK);
}

Signals::~Signals() {
  close(descriptor_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> Signals::next() const {
  signalfd_siginfo info;
  if (read(descriptor_, &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace modular
