// Signals that make a run save a checkpoint, from a scheduler or a user.
#pragma once

#include <signal.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/mesh/mesh.h"

namespace modular {

/// A request to the run.
struct SaveRequest {
  bool save = false;  // write a checkpoint: SIGUSR1
  int end_by = 0;     // signal after whose checkpoint the run ends: SIGTERM, SIGINT or SIGHUP; 0 for none
};

/// Records those signals instead of ending the process, except for signals that were ignored before. A second
/// terminating signal ends the process at once, unless it repeats the first one within a second. A SIGUSR1 within a
/// second of one that was served counts as the same request. Only one instance at a time.
class SaveSignals {
 public:
  SaveSignals();
  ~SaveSignals();
  SaveSignals(const SaveSignals&) = delete;
  SaveSignals& operator=(const SaveSignals&) = delete;

  /// Requests of any rank since the last call, the same on all ranks; `also_save` acts as SIGUSR1 on this rank.
  /// `largest` becomes the elementwise maximum over ranks: it shares the collective of the request. Collective over the
  /// world; all ranks pass the same number of values.
  SaveRequest agree(Mesh& mesh, bool also_save, std::span<int64_t> largest = {});

 private:
  std::array<struct sigaction, 4> before_;
  std::optional<int64_t> asked_at_;  // nanoseconds; time of the last agreed save
};

}  // namespace modular
