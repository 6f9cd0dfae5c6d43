// Batches in an order that depends only on the seed: the global batch of a step has the same samples on every mesh, and
// each data-parallel rank reads only its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/dataset.h"

namespace modular {

/// Position of a run in its data: global samples consumed, by any rank.
struct DataPosition {
  struct OfSet {
    int64_t samples = 0, steps = 0;  // samples consumed from the set, and steps that read from it
  };
  int64_t samples = 0;
  std::vector<OfSet> sets = {};  // one per data set (MixedSource); empty for a single set, or before the first step
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
  BatchSource(const Dataset& samples, const BatchShape& shape, uint64_t seed, bool by_length = false)
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

  const Dataset& samples_;
  BatchShape shape_;
  uint64_t seed_;
  bool by_length_;
};

/// The samples at positions [begin, end). With `by_length`, samples of similar length come together: in each pass,
/// chunks of 1024 samples of the random order (or a quarter of the pass if that is less) are sorted, the longest first.
/// Samples that have a PartitionOrder use it.
std::vector<int64_t> samples_at(const Dataset& samples, int64_t begin, int64_t end, uint64_t seed, bool by_length);

/// Index of the sample at `position`; each pass over `samples` has its own order.
int64_t sample_at(int64_t position, int64_t samples, uint64_t seed);

/// Deals out turns by weights, so that each candidate has had its share at any time.
class Apportionment {
 public:
  /// `weights` are finite and above 0. `seed` breaks ties.
  Apportionment(std::span<const double> weights, uint64_t seed);

  /// Index of the candidate whose turn is next, given the turns that each has had. If all turns are dealt this way,
  /// after n turns each candidate has had n times its share of the weights, to within less than one turn (Tijdeman, The
  /// chairman assignment problem); shares are rounded to 2^-24.
  size_t next(std::span<const int64_t> turns) const;

 private:
  std::vector<int64_t> shares_;  // of all_
  int64_t all_ = 0;
  uint64_t seed_;
};

/// Batches from several data sets; each step reads from one of them.
class MixedSource {
 public:
  struct Set {
    const Dataset* samples = nullptr;  // must outlive the source
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
