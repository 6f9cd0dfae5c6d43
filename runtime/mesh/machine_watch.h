// Notices a machine that is gone, under launchers that do not (torchrun with static rendezvous, srun, mpirun).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/mesh/environment.h"

namespace modular {

/// One rank of each machine writes a heartbeat into the job's store, and rank 0 reads them all. Needs nothing of the
/// other ranks' main threads.
class MachineWatch {
 public:
  /// Called on a thread of the watch with a sentence that names the machine.
  using OnLost = std::function<void(const std::string& sentence)>;

  /// Null where the watch is not needed: the ranks are on one machine, or modrun's launcher watches.
  static std::unique_ptr<MachineWatch> start(const Environment& environment, OnLost on_lost);
  /// The job ends in order: nothing is reported from here on.
  ~MachineWatch();
  MachineWatch(const MachineWatch&) = delete;
  MachineWatch& operator=(const MachineWatch&) = delete;

  struct State;

 private:
  explicit MachineWatch(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

/// After a collective has failed: the machine that shows no sign of life, as a phrase, once that can be known, which
/// takes some seconds; empty if all do, or nothing watches them.
std::string silent_machine();

}  // namespace modular
