// Signals by which a scheduler or a person asks a run to save itself.
#pragma once

#include <signal.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/mesh/mesh.h"

namespace modular {

/// What is asked of a run.
struct SaveRequest {
  bool save = false;  // write a checkpoint: SIGUSR1
  int end_by = 0;     // the signal after whose checkpoint the run is to end: SIGTERM, SIGINT or SIGHUP; else 0
};

/// While it lives, those signals are noted rather than end the process, but for those that were ignored before. A
/// second one that asks to end does it at once, unless it is the same again within a second, as a SIGUSR1 within a
/// second of one that was obeyed is the same request. One at a time.
class SaveSignals {
 public:
  SaveSignals();
  ~SaveSignals();
  SaveSignals(const SaveSignals&) = delete;
  SaveSignals& operator=(const SaveSignals&) = delete;

  /// What any rank was asked since the last call, the same on all; `also_save` asks on this rank as SIGUSR1 does.
  /// `largest` becomes, number by number, the largest of the ranks': what travels with the request costs no exchange of
  /// its own. Collective over the world, on which as many numbers are given on every rank.
  SaveRequest agree(Mesh& mesh, bool also_save, std::span<int64_t> largest = {});

 private:
  std::array<struct sigaction, 4> before_;
  std::optional<int64_t> asked_at_;  // nanoseconds, when the ranks last agreed to save
};

}  // namespace modular
