// Where the time of a piece of work goes: each operation that ran, with what it had to do at least.
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
  double seconds = 0.0;  // without those of operations that it called
  double flops = 0.0, bytes = 0.0;
  double roof = 0.0;  // seconds that a machine of the given rates takes at least, summed over the calls
};

struct Recording {
  double seconds = 0.0;  // of wall time
  std::map<std::string, Operation> operations;

  /// The sums of each kind of operation; "outside of operations" is what is left of the time.
  std::map<std::string_view, Operation> kinds() const;
};

/// Runs `work` on this thread and records it. With `rates`, also what operations have to do: that of an operation which
/// is known by name, else that of those which call no others.
Recording record(const std::function<void()>& work, const MachineRates* rates);

}  // namespace modular
