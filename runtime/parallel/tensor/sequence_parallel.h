// Sequence parallelism (Korthikanti et al., Reducing activation recomputation in large transformer models): between
// layers, each tp rank holds an equal part of the positions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/mesh/rendezvous.h"
#include "runtime/model/registry.h"
#include "runtime/model/tp.h"
#include "runtime/parallel/step/feature.h"
#include "runtime/parallel/tensor/context_parallel.h"

namespace modular {

/// Decides which forwards run on parts of the positions, and sums the gradients of which each rank then has a part. A
/// step runs so if the ranks divide the sequences of all its micro-batches on all data-parallel ranks; the others run
/// as without sequence parallelism. Sums are in rank order where the collectives' are.
///
/// Graphs keep the shares that enter() gathers, not the gathered values: the backward gathers them again, once for all
/// nodes that read them. A unit that is recomputed gathers them as it runs.
class SequenceShares final : public tp::SequenceParallel, public Feature {
 public:
  /// `tp`: the tp ranks. `two_stacks`: whether a decoder's layers run on parts of the positions too. `context`: the
  /// ranks that divide sequences before tp ranks do, or null.
  SequenceShares(ProcessGroup tp, bool two_stacks, const ContextRanks* context)
      : tp_(std::move(tp)), two_stacks_(two_stacks), context_(context) {}

  /// Appends the number of micro-batches whose sequences the ranks do not divide.
  void begin_step(TrainingStep& step) override;
  /// The interface that the step's model is bound to; null for the full positions. `step.counts` are sums over the
  /// data-parallel ranks.
  tp::SequenceParallel* for_step(const TrainingStep& step);
  /// The same for forwards without a backward.
  tp::SequenceParallel* for_batches(std::span<const Batch> batches);
  /// Sums the gradients of parameters that are partial_in_sequence, in one message.
  void reduce_gradients(std::vector<ShardedParameter>& slices) override;

  Tensor part(const Tensor& x, int64_t dim) override;
  Tensor whole(const Tensor& share, int64_t dim) override;
  Tensor enter(const Tensor& share, int64_t dim) override;
  Tensor exit(const Tensor& partial, int64_t dim) override;

 private:
  bool divides(const Batch& batch) const;

  ProcessGroup tp_;
  bool two_stacks_;
  const ContextRanks* context_;
  size_t counts_at_ = 0;  // index in TrainingStep::counts
  bool in_step_ = false;  // whether the running step is bound
};

/// Returns why parallel.sequence = `wanted` is not possible with the entry; empty if it is.
std::string sequence_error(const Entry& entry, std::optional<bool> wanted);

}  // namespace modular
