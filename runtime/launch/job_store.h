// The job's key-value store as launchers use it: node 0's hosts it for all ranks, and launchers tell each other of
// failures.
#pragma once

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdint>
#include <string>

#include "runtime/launch/launcher.h"

namespace modular {

class JobStore {
 public:
  /// Node 0 opens the store, on a port that the system chooses where none is given; the others connect to it. Throws
  /// std::runtime_error naming address and port where that fails.
  explicit JobStore(const LaunchOptions& options);

  const std::string& host() const { return host_; }
  uint16_t port() const;

  /// Publishes what failed on this node, unless another node was first.
  void tell_failure(const std::string& summary);
  /// What failed first on another node; a sentence also where the store itself is gone. Empty where all is well.
  std::string failure_elsewhere();
  /// Says that this node's ranks have ended.
  void tell_done();
  /// Whether the ranks of all nodes have ended: until then node 0 keeps the store open. Always true elsewhere.
  bool may_close();

 private:
  int64_t nodes_, node_rank_;
  std::string host_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

}  // namespace modular
