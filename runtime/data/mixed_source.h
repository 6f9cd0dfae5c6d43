// Batches from several data sets; each step reads from one of them.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/apportionment.h"
#include "runtime/data/batches.h"

namespace modular {

class MixedSource {
 public:
  struct Set {
    const Samples* samples = nullptr;  // must outlive the source
    double weight = 1.0;
  };

  /// At least one set. The set of a step depends on the weights, `seed` and the steps before it, and so is the same on
  /// all ranks.
  MixedSource(const std::vector<Set>& sets, const BatchShape& shape, uint64_t seed, bool by_length = false);

  /// Number of samples in one pass over all sets.
  int64_t samples() const;

  /// Index of the set for the step at `position`.
  size_t set_at(const DataPosition& position) const;

  /// This rank's micro-batches of the step at `position`, read from that set as BatchSource does, in the set's own
  /// order.
  std::vector<Batch> at(const DataPosition& position) const;

  /// Position of the run after that step.
  DataPosition after(DataPosition position) const;

 private:
  std::vector<BatchSource> sources_;
  Apportionment apportionment_;
  int64_t step_samples_;
};

}  // namespace modular
