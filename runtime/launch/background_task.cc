#include "runtime/launch/background_task.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "runtime/files/open_file.h"
#include "runtime/launch/process.h"

namespace modular {
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

}  // namespace modular
