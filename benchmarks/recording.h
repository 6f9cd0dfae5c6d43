// Records the operations of a piece of work: the time of each and the least work that it had to do.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "benchmarks/machine_rates.h"

namespace modular {

/// All calls of one operation.
struct Operation {
  double seconds = 0.0;  // without the operations that it called
  double flops = 0.0, bytes = 0.0;
  double roof = 0.0;  // the least seconds at the given rates, summed over the calls
};

struct Recording {
  double seconds = 0.0;  // wall time
  std::map<std::string, Operation> operations;

  /// The sums over each kind of operation; "outside of operations" is the remaining time.
  std::map<std::string_view, Operation> kinds() const;
};

/// Runs `work` on this thread and records it. With `rates`, also counts the work of operations: of those whose cost is
/// known by name, and otherwise of those that call no others.
Recording record(const std::function<void()>& work, const MachineRates* rates);

}  // namespace modular
