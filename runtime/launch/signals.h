// The signals of the process that watches ranks, read one after the other rather than handled in the middle of other
// work.
#pragma once

#include <signal.h>

#include <optional>

namespace modular {

/// Blocks SIGINT, SIGTERM and SIGHUP, but for those that are ignored, and SIGUSR1 and SIGUSR2 on the calling thread,
/// and gives them through a descriptor. Other threads must not take them: there is one, or the others block them.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Readable when there is one.
  int descriptor() const { return descriptor_; }
  /// The next that has come, if one has.
  std::optional<int> next() const;

 private:
  sigset_t set_ = {}, before_ = {};
  int descriptor_ = -1;
};

/// Whether it asks to end, rather than being SIGUSR1 or SIGUSR2.
constexpr bool asks_to_end(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

}  // namespace modular
