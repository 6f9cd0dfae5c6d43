#include "generator/workers.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

namespace modgen {
namespace {

constexpr int kFailed = 1;

std::runtime_error system_error(const char* what) {
  return std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

void write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) _exit(kFailed);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

/// The file from its beginning.
std::string read_all(int file) {
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = pread(file, buffer, sizeof buffer, static_cast<off_t>(bytes.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw system_error("reading what a worker of modgen made");
    if (count == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace

Workers::~Workers() {
  for (const Child& child : children_) {
    kill(child.process, SIGKILL);
    waitpid(child.process, nullptr, 0);
    close(child.ended);
    close(child.file);
  }
}

bool Workers::start() {
  while (children_.size() >= at_once_) collect(/*wait=*/true);
  const int file = memfd_create("modgen-worker", MFD_CLOEXEC);
  if (file < 0) throw system_error("memory for what a worker of modgen makes");
  const pid_t process = fork();
  if (process < 0) {
    close(file);
    throw system_error("starting a worker of modgen");
  }
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const Child& child : children_) close(child.file), close(child.ended);
    children_.clear();
    file_ = file;
    return true;
  }
  // glibc 2.36 declares pidfd_open for C alone.
  const int ended = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  children_.push_back({results_.size(), process, ended, file});
  results_.emplace_back();
  if (children_.back().ended < 0) throw system_error("watching a worker of modgen");
  return false;
}

void Workers::collect(bool wait) {
  std::vector<pollfd> ends;
  for (const Child& child : children_) ends.push_back({child.ended, POLLIN, 0});
  while (poll(ends.data(), ends.size(), wait ? -1 : 0) < 0)
    if (errno != EINTR) throw system_error("waiting for a worker of modgen");
  for (size_t index = ends.size(); index-- > 0;) {
    if (ends[index].revents == 0) continue;
    const Child child = children_[index];
    children_.erase(children_.begin() + static_cast<long>(index));
    int status = 0;
    waitpid(child.process, &status, 0);
    std::string& result = results_[child.number];
    result = read_all(child.file);
    close(child.ended);
    close(child.file);
    if (WIFSIGNALED(status))
      throw std::runtime_error(std::string("a worker was ended by a signal: ") + strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0) throw std::runtime_error(result);
  }
}

size_t Workers::running() {
  collect(/*wait=*/false);
  return children_.size();
}

std::vector<std::string> Workers::results() {
  while (!children_.empty()) collect(/*wait=*/true);
  return std::move(results_);
}

void Workers::succeed(std::string_view result) const {
  write_all(file_, result);
  _exit(0);
}

void Workers::fail(std::string_view message) const {
  write_all(file_, message);
  _exit(kFailed);
}

}  // namespace modgen
