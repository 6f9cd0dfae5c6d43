// What sentence embeddings are trained for, with the samples of a whole step compared: those of all micro-batches and
// of all data-parallel ranks, in the order of the samples, so that every mesh compares the same. Embeddings that are
// compared across micro-batches are made twice, first without gradients (Gao et al., Scaling Deep Contrastive Learning
// Batch Size under Memory Limited Setup): dropout, which follows from the sample alone, drops the same both times.
#pragma once

#include <span>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/model/sentences.h"
#include "runtime/model/tensors.h"
#include "runtime/parallel/sentence_losses.h"

namespace modular {

class SentenceObjective final : public sentences::Objective {
 public:
  /// `data_parallel`: the ranks whose batches make up a step, in the order in which samples are dealt out to them; null
  /// for this one alone.
  SentenceObjective(const SentenceOptions& options, ProcessGroup data_parallel);

  /// Of the steps and evaluations from now on.
  void train_for(const SentenceOptions& options) { options_ = options; }

  /// Whether samples of such a batch are compared with those of others.
  bool compares_samples(const Batch& batch) const;

  /// The targets of this rank's micro-batches of a step. Collective where samples are compared.
  int64_t targets(std::span<const Batch> micro_batches) const;

  /// Before a step, or an evaluation of batches that are one step.
  void begin(bool trains);
  /// From here on forwards only keep embeddings that are compared, and find no loss, until settle().
  void collect() { collects_ = true; }
  struct Sums {
    double loss = 0.0;
    int64_t count = 0;
  };
  /// Compares what was kept, and returns the loss and the targets of this rank's samples. Collective over the ranks
  /// that kept something.
  Sums settle();

  Tensor loss(const Tensor& embeddings, const Tensor& labels) override;
  Tensor count(const Tensor& embeddings, const Tensor& labels) override;

 private:
  /// The samples of one forward.
  struct Part {
    Tensor labels;      // [samples], which tell the forward when it runs again
    Tensor embeddings;  // [samples, texts, hidden] float32
    Tensor loss, count;
    Tensor gradient;  // of the step's loss sum by `embeddings`
  };
  const SentenceLoss& get_kind(const Tensor& embeddings, const Tensor& labels) const;
  /// Of each rank's samples, all in the order of the step: [samples, …].
  Tensor in_order(const Tensor& own) const;
  /// Which of all these are this rank's.
  Tensor take_own(const Tensor& all) const;
  const Part* find_part(const Tensor& labels) const;

  SentenceOptions options_;
  ProcessGroup data_parallel_;
  bool trains_ = false, collects_ = false, settled_ = false;
  std::vector<Part> parts_;
};

}  // namespace modular
