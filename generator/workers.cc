#include "generator/workers.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

namespace modgen {
namespace {

constexpr int kFailed = 1;

struct Child {
  size_t number;
  pid_t process;
  int channel;
};

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

/// Adds what can be read to `bytes`; false at the end.
bool read_some(int file, std::string& bytes) {
  char buffer[1 << 16];
  const ssize_t count = read(file, buffer, sizeof buffer);
  if (count < 0 && errno == EINTR) return true;
  if (count < 0) throw system_error("reading what a worker of modgen made");
  bytes.append(buffer, static_cast<size_t>(count));
  return count > 0;
}

/// Children that are not waited for yet; ends them where an exception passes.
struct Running {
  std::vector<Child> children;
  ~Running() {
    for (const Child& child : children) {
      close(child.channel);
      kill(child.process, SIGKILL);
      waitpid(child.process, nullptr, 0);
    }
  }
};

}  // namespace

std::optional<size_t> Workers::split(size_t count, size_t at_once) {
  results_.assign(count, "");
  Running running;
  for (size_t next = 0; next < count || !running.children.empty();) {
    if (next < count && running.children.size() < at_once) {
      int ends[2];
      if (pipe(ends) != 0) throw system_error("a pipe to a worker of modgen");
      const pid_t process = fork();
      if (process < 0) throw system_error("starting a worker of modgen");
      if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        for (const Child& child : running.children) close(child.channel);
        running.children.clear();
        channel_ = ends[1];
        return next;
      }
      close(ends[1]);
      running.children.push_back({next++, process, ends[0]});
      continue;
    }
    std::vector<pollfd> channels;
    for (const Child& child : running.children) channels.push_back({child.channel, POLLIN, 0});
    if (poll(channels.data(), channels.size(), -1) < 0 && errno != EINTR) throw system_error("waiting for a worker");
    for (size_t index = channels.size(); index-- > 0;) {
      const Child child = running.children[index];
      if (channels[index].revents == 0 || read_some(child.channel, results_[child.number])) continue;
      running.children.erase(running.children.begin() + static_cast<long>(index));
      close(child.channel);
      int status = 0;
      waitpid(child.process, &status, 0);
      if (WIFSIGNALED(status))
        throw std::runtime_error(std::string("a worker was ended by a signal: ") + strsignal(WTERMSIG(status)));
      if (WEXITSTATUS(status) != 0) throw std::runtime_error(results_[child.number]);
    }
  }
  return std::nullopt;
}

void Workers::succeed(std::string_view result) const {
  write_all(channel_, result);
  _exit(0);
}

void Workers::fail(std::string_view message) const {
  write_all(channel_, message);
  _exit(kFailed);
}

}  // namespace modgen
