// Signals of the launcher process, read synchronously from a descriptor instead of interrupting other work.
#pragma once

#include <signal.h>

#include <optional>

namespace modular {

/// Blocks SIGINT, SIGTERM and SIGHUP (unless ignored), SIGUSR1 and SIGUSR2 on the calling thread and delivers them
/// through a descriptor. All other threads must block them too.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Readable when a signal is pending.
  int descriptor() const { return descriptor_; }
  /// Returns the next pending signal, if any.
  std::optional<int> next() const;

 private:
  sigset_t set_ = {}, before_ = {};
  int descriptor_ = -1;
};

/// Whether the signal requests termination.
constexpr bool asks_to_end(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

}  // namespace modular
