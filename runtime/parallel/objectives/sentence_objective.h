// Training objective of sentence embeddings. Compares the samples of an entire step, of all micro-batches and
// data-parallel ranks, in sample order, so that every mesh compares the same samples. Embeddings that are compared
// across micro-batches are computed twice, first without gradients (Gao et al., Scaling Deep Contrastive Learning Batch
// Size under Memory Limited Setup). Dropout depends only on the sample and is the same both times.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/model/sentences.h"
#include "runtime/model/tensors.h"
#include "runtime/parallel/step/feature.h"

namespace modular {

struct SentenceOptions {
  std::string loss;              // name in sentence_losses(); chosen from the data if empty
  double scale = 20.0;           // factor of cosines in a softmax: 1 / temperature
  std::optional<double> margin;  // margin of distances; default of the loss if not set
  std::string distance;          // "cosine" or "euclidean"; default of the loss if empty
};

/// Table entry of a loss.
struct SentenceLoss {
  std::string_view name;
  int64_t least_texts, most_texts;  // texts per sample
  enum class Labels {
    none,    // only mark which samples count
    groups,  // samples with the same label belong together
    alike,   // 1 for texts that belong together, 0 for others
    scores,  // similarity of the two texts
  } labels;
  bool compares_samples;  // compares the samples of a step with one another
  /// - embeddings [samples, texts, hidden] float32
  /// - labels [samples]; kIgnoredTarget for samples that do not count
  /// - returns [samples] float32, 0 for those
  at::Tensor (*losses)(const at::Tensor& embeddings, const at::Tensor& labels, const SentenceOptions& options);
  /// Returns [samples]: kIgnoredTarget for samples without a loss.
  at::Tensor (*targets)(const at::Tensor& labels);
};

const std::vector<SentenceLoss>& sentence_losses();

/// Returns the loss that the options name, or else the loss that suits samples with this number of texts, whose labels
/// may be floating-point numbers.
const SentenceLoss& find_sentence_loss(const SentenceOptions& options, int64_t texts, bool labels_are_numbers);

/// Returns why the loss that the options name does not suit samples with this number of texts; empty if it does. `key`
/// is the config key of the loss.
std::string sentence_error(const SentenceOptions& options, int64_t texts, bool has_labels, bool labels_are_numbers,
                           const std::string& key = "sentences.loss");

/// The objective of the steps and evaluations of a model.
class SentenceObjective final : public sentences::Objective, public Feature {
 public:
  /// `data_parallel`: the ranks whose batches form a step, in the order in which samples are distributed to them; null
  /// if this is the only rank.
  SentenceObjective(const SentenceOptions& options, ProcessGroup data_parallel);

  /// Sets the options of the following steps and evaluations.
  void train_for(const SentenceOptions& options) { options_ = options; }

  /// Counts the targets of this rank's micro-batches. Collective if samples are compared.
  void begin_step(TrainingStep& step) override;
  /// Compares the samples of a step that has several forwards before its first backward. Collective in that case.
  void before_forwards(const TrainingStep& step) override;
  /// The batches of an evaluation form one step.
  void begin_evaluation() override;
  void end_evaluation(double& loss_sum, double& target_count) override;

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
  struct Sums {
    double loss = 0.0;
    int64_t count = 0;
  };
  const SentenceLoss& get_kind(const Tensor& embeddings, const Tensor& labels) const;
  /// Number of targets of this rank's micro-batches of a step. Collective if samples are compared.
  int64_t targets(std::span<const Batch> micro_batches) const;
  /// Drops the samples of the previous step or evaluation.
  void begin(bool trains);
  /// Compares the collected embeddings. Returns the loss and the number of targets of this rank's samples. Collective
  /// over the ranks that collected embeddings.
  Sums compare();
  /// All-gathers the samples of all ranks in the order of the step: [samples, …].
  Tensor in_order(const Tensor& own) const;
  /// Selects this rank's samples.
  Tensor take_own(const Tensor& all) const;
  const Part* find_part(const Tensor& labels) const;

  SentenceOptions options_;
  ProcessGroup data_parallel_;
  bool trains_ = false;
  bool collects_ = false;  // until compare(), forwards only collect embeddings, and return no loss
  bool compared_ = false;
  std::vector<Part> parts_;
};

}  // namespace modular
