// Training objective of sentence embeddings. Compares the samples of an entire step, of all micro-batches and
// data-parallel ranks, in sample order, so that every mesh compares the same samples. Embeddings that are compared
// across micro-batches are computed twice, first without gradients (Gao et al., Scaling Deep Contrastive Learning Batch
// Size under Memory Limited Setup). Dropout depends only on the sample and is the same both times.
#pragma once

#include <span>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/model/sentences.h"
#include "runtime/model/tensors.h"
#include "runtime/parallel/objectives/sentence_losses.h"

namespace modular {

class SentenceObjective final : public sentences::Objective {
 public:
  /// `data_parallel`: the ranks whose batches form a step, in the order in which samples are distributed to them; null
  /// if this is the only rank.
  SentenceObjective(const SentenceOptions& options, ProcessGroup data_parallel);

  /// Sets the options of the following steps and evaluations.
  void train_for(const SentenceOptions& options) { options_ = options; }

  /// Whether the loss of this batch compares its samples with those of other batches.
  bool compares_samples(const Batch& batch) const;

  /// Number of targets of this rank's micro-batches of a step. Collective if samples are compared.
  int64_t targets(std::span<const Batch> micro_batches) const;

  /// Call before a step, or before an evaluation of batches that form one step.
  void begin(bool trains);
  /// Until settle(), forwards only collect embeddings to compare, and return no loss.
  void collect() { collects_ = true; }
  struct Sums {
    double loss = 0.0;
    int64_t count = 0;
  };
  /// Compares the collected embeddings. Returns the loss and the number of targets of this rank's samples. Collective
  /// over the ranks that collected embeddings.
  Sums settle();

  Tensor loss(const Tensor& embeddings, const Tensor& labels) override;
  Tensor count(const Tensor& embeddings, const Tensor& labels) override;

 private:
  /// The samples of one forward.
  struct Part {
    Tensor labels;      // [samples]; identify the forward when it runs again
    Tensor embeddings;  // [samples, texts, hidden] float32
    Tensor loss, count;
    Tensor gradient;  // gradient of the step's loss sum with respect to `embeddings`
  };
  const SentenceLoss& get_kind(const Tensor& embeddings, const Tensor& labels) const;
  /// All-gathers the samples of all ranks in the order of the step: [samples, …].
  Tensor in_order(const Tensor& own) const;
  /// Selects this rank's samples.
  Tensor take_own(const Tensor& all) const;
  const Part* find_part(const Tensor& labels) const;

  SentenceOptions options_;
  ProcessGroup data_parallel_;
  bool trains_ = false, collects_ = false, settled_ = false;
  std::vector<Part> parts_;
};

}  // namespace modular
