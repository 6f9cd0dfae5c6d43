// Threads that are started meanwhile take no signals.
#pragma once

#include <csignal>

namespace modular {

/// Blocks all signals of this thread, and so those of threads that it starts: a library's own, which live on, are not
/// to take what is meant for whoever waits for it.
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
