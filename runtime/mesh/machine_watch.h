// Detects a lost machine under launchers that do not (torchrun with static rendezvous, srun, mpirun).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/mesh/environment.h"

namespace modular {

/// One rank per machine writes a heartbeat into the job's store, and rank 0 reads all of them. Does not depend on the
/// main threads of the ranks.
class MachineWatch {
 public:
  /// Called on a thread of the watch with a message that names the machine.
  using OnLost = std::function<void(const std::string& sentence)>;

  /// Returns null if no watch is needed: all ranks run on one machine, or modrun's launcher watches them.
  static std::unique_ptr<MachineWatch> start(const Environment& environment, OnLost on_lost);
  /// Ends the watch after an orderly shutdown: nothing is reported afterwards.
  ~MachineWatch();
  MachineWatch(const MachineWatch&) = delete;
  MachineWatch& operator=(const MachineWatch&) = delete;

  struct State;

 private:
  explicit MachineWatch(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

/// After a failed collective, returns a phrase that names the silent machine, once this can be decided, which takes
/// some seconds; empty if all machines respond or there is no watch.
std::string silent_machine();

}  // namespace modular
