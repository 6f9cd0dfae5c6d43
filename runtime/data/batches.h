// Batches in an order that depends only on the seed: the global batch of a step has the same samples on every mesh, and
// each data-parallel rank reads only its own.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/samples.h"

namespace modular {

/// Position of a run in its data: global samples consumed, by any rank.
struct DataPosition {
  struct OfSet {
    int64_t samples = 0, steps = 0;  // samples consumed from the set, and steps that read from it
  };
  int64_t samples = 0;
  std::vector<OfSet> sets = {};  // one per data set (mixed_source.h); empty for a single set, or before the first step
};

/// One data-parallel rank's part of every step.
struct BatchShape {
  int64_t micro_batch = 0;    // samples per forward
  int64_t micro_batches = 0;  // forwards per step
  int64_t dp_rank = 0;        // index of this rank among the ranks that read different data
  int64_t dp_size = 1;        // number of those ranks
  /// Samples per step on all ranks together.
  int64_t global() const { return micro_batch * micro_batches * dp_size; }
};

class BatchSource {
 public:
  /// Batches of `samples`, which must outlive this object, in the order of samples_at().
  BatchSource(const Samples& samples, const BatchShape& shape, uint64_t seed, bool by_length = false)
      : samples_(samples), shape_(shape), seed_(seed), by_length_(by_length) {}

  /// Number of samples in one pass over the data.
  int64_t samples() const { return samples_.count(); }

  /// This rank's micro-batches of the step at `position`, each of micro_batch rows, on the CPU, labels set. Sample k of
  /// the step goes to rank k modulo dp_size.
  std::vector<Batch> at(const DataPosition& position) const;

  /// The same from `position` in this source, for a step at the different position `run_position` in the run's order.
  std::vector<Batch> at(int64_t position, int64_t run_position) const;

  /// The same for evaluation, step by step: steps_for(count) steps cover samples 0 … count - 1 of the order, each
  /// sample once; positions after them have no targets.
  std::vector<Batch> step_of_first(int64_t count, int64_t step) const;
  int64_t steps_for(int64_t count) const;

 private:
  std::vector<Batch> read(int64_t position, int64_t end, int64_t run_position) const;

  const Samples& samples_;
  BatchShape shape_;
  uint64_t seed_;
  bool by_length_;
};

/// The samples at positions [begin, end). With `by_length`, samples of similar length come together: in each pass,
/// chunks of 1024 samples of the random order (or a quarter of the pass if that is less) are sorted, the longest first.
/// Samples that have a PartitionOrder use it.
std::vector<int64_t> samples_at(const Samples& samples, int64_t begin, int64_t end, uint64_t seed, bool by_length);

/// Index of the sample at `position`; each pass over `samples` has its own order.
int64_t sample_at(int64_t position, int64_t samples, uint64_t seed);

}  // namespace modular
