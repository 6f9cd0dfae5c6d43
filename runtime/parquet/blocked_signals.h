// Blocks signals for a scope, including in threads started within it.
#pragma once

#include <csignal>

namespace modular {

/// Blocks all signals on this thread and on threads that it starts. A library's threads outlive the scope and must not
/// take signals that are meant for other threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace modular
