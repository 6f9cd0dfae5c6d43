// The job's key-value store as launchers use it: node 0's hosts it for all ranks, and launchers tell each other of
// failures.
#pragma once

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/launch/launcher.h"

namespace modular {

/// No call takes longer than some seconds, whatever the other nodes do; asking for their failures takes no time.
class JobStore {
 public:
  /// Node 0 opens the store, on a port that the system chooses where none is given, and for a job on one machine on the
  /// loopback address alone; the others connect to it, and call `while_waiting` meanwhile, which may throw. Throws
  /// std::runtime_error naming address and port where that fails.
  JobStore(const LaunchOptions& options, const std::function<void()>& while_waiting);

  const std::string& host() const { return host_; }
  uint16_t port() const;

  /// What follows is of this attempt at the job: 0, and one more after each failure.
  void begin_attempt(int64_t attempt) {
    attempt_ = attempt;
    asked_ = {};
  }

  /// Publishes what failed on this node, unless another node was first.
  void tell_failure(const std::string& summary);
  /// What failed first on another node; a sentence also where the store itself is gone. Empty where all is well.
  std::string failure_elsewhere();
  /// Says that this node's ranks have ended, and will not be started again.
  void tell_done();
  /// Whether another node has said so.
  bool another_is_done();
  /// Whether the ranks of all nodes have ended: until then node 0 keeps the store open. Always true elsewhere.
  bool may_close();

 private:
  std::string failure_key() const;

  std::future<std::string> asked_;  // of failure_elsewhere, while there is no answer
  std::chrono::steady_clock::time_point asked_at_;
  int64_t nodes_, node_rank_, attempt_ = 0;
  std::string host_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

/// Text of another machine as it may go to a terminal: without control characters other than line breaks.
std::string printable(std::string_view text);

}  // namespace modular
