#include "runtime/launch/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace modular {
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
