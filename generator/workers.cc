#include "generator/workers.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

namespace modgen {
namespace {

// Exit codes of a child. Its file then holds the result, the error message, or the part of either that could be
// written.
constexpr int kSucceeded = 0, kFailed = 1, kNotHandedOver = 2;

/// Writes `bytes` to `file` and ends this process.
[[noreturn]] void hand_over(int file, std::string_view bytes, int exit_code) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) _exit(kNotHandedOver);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  _exit(exit_code);
}

}  // namespace

bool Workers::start() {
  while (children_.size() >= at_once_) collect(/*wait=*/true);
  FileDescriptor file = memory_file("modgen-worker");
  keep_status_of_children();
  const pid_t parent = getpid(), process = fork();
  if (process < 0) throw std::runtime_error(std::string("a worker process cannot be started: ") + std::strerror(errno));
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kNotHandedOver);  // the parent ended before PR_SET_PDEATHSIG took effect
    for (Child& child : children_) child.process.release();
    children_.clear();
    file_ = std::move(file);
    return true;
  }
  children_.push_back({results_.size(), Process(process), std::move(file)});
  results_.emplace_back();
  return false;
}

void Workers::collect(bool wait) {
  std::vector<const Process*> processes;
  for (const Child& child : children_) processes.push_back(&child.process);
  const std::vector<size_t> done = ended(processes, wait);
  for (size_t index = done.size(); index-- > 0;) {
    Child child = std::move(children_[done[index]]);
    children_.erase(children_.begin() + static_cast<long>(done[index]));
    const Ending ending = child.process.wait();
    if (ending.signal != 0) throw std::runtime_error("a worker process " + describe(ending));
    results_[child.number] = contents(child.file);
    if (ending.exit_code == kFailed) throw std::runtime_error(results_[child.number]);
    if (ending.exit_code != kSucceeded)
      throw std::runtime_error(
          "a worker process could not hand over its result; the machine may have run out of memory");
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

void Workers::succeed(std::string_view result) const { hand_over(file_, result, kSucceeded); }

void Workers::fail(std::string_view message) const { hand_over(file_, message, kFailed); }

}  // namespace modgen
