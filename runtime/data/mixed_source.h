// Batches of several sets of data, each step from one of them.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/apportionment.h"
#include "runtime/data/batches.h"

namespace modular {

class MixedSource {
 public:
  struct Set {
    const Samples* samples = nullptr;  // which must outlive the source
    double weight = 1.0;
  };

  /// At least one set. Which set a step draws from follows from the weights, `seed` and the steps before it, and so is
  /// the same on all ranks.
  MixedSource(const std::vector<Set>& sets, const BatchShape& shape, uint64_t seed, bool by_length = false);

  /// Samples in one pass over all sets.
  int64_t samples() const;

  /// The number of the set that the step at `position` draws from.
  size_t set_at(const DataPosition& position) const;

  /// This rank's micro-batches of the step at `position`, as BatchSource reads them from that set, in the set's own
  /// order.
  std::vector<Batch> at(const DataPosition& position) const;

  /// Where the run is after that step.
  DataPosition after(DataPosition position) const;

 private:
  std::vector<BatchSource> sources_;
  Apportionment apportionment_;
  int64_t step_samples_;
};

}  // namespace modular
