// Metrics of the validation set, by name ("accuracy", "recall@20"), and the counts that they are computed from. Sums of
// integers do not depend on their order, so every mesh gets the same result.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/mesh/mesh.h"

namespace modular {

// Counts of class predictions and targets. Sums of integers do not depend on their order, so every mesh gets the same
// result.

struct ClassCounts {
  // All [classes] int64, in host memory; undefined if nothing was counted.
  at::Tensor target_ranks;  // number of targets whose logit ranks first, second, … among all classes
  at::Tensor predicted;     // number of times each class has the largest logit
  at::Tensor actual;        // number of times each class is the target
  at::Tensor correct;       // number of times both

  static ClassCounts zeros(int64_t classes);

  /// Counts each target other than kIgnoredTarget. Of equal logits, the lower class ranks first.
  /// - logits [..., classes]
  /// - targets [...] int64
  void add(const at::Tensor& logits, const at::Tensor& targets);

  /// Sums over all ranks. Collective.
  void sum(const Mesh& mesh);
};

// Metrics of the validation set, by name: "accuracy", "recall@20".

/// An entry of the table of metrics.
struct MetricKind {
  std::string_view name;
  enum class Of {
    loss,     // the mean loss
    classes,  // predicted and actual classes
    ranks,    // the rank of correct answers among all candidates
    numbers,  // predicted and actual numbers
  } of;
  bool takes_cutoff = false;  // "@k": ranks after k do not count
  bool needs_cutoff = false;
  bool less_is_better = false;
};

const std::vector<MetricKind>& metric_kinds();

/// Whether `name` is a metric, with or without a cutoff, for which less is better.
bool less_is_better(std::string_view name);

/// A metric as a config value names it.
struct Metric {
  std::string name;  // with its cutoff
  const MetricKind* kind = nullptr;
  int64_t cutoff = 0;  // 0 for none
};

/// The metric with this name for an entry's task. `problem` is a classifier's problem type (find_problem()), or the
/// loss of embeddings (SentenceOptions::loss). Throws std::invalid_argument, with a message for users, if there is
/// none.
Metric find_metric(const std::string& name, std::string_view task, std::string_view problem = {});

/// The default metrics of a task; may be empty.
std::vector<std::string> usual_metrics(std::string_view task, std::string_view problem = {});

/// The contribution of one row to a metric of ranks; `ranks` are the ranks of its correct answers (from 1, ascending,
/// at least one). accuracy: whether the first rank is 1; recall: the fraction of ranks within the cutoff; mrr: 1 / the
/// first rank; ndcg: the sum of 1 / log2(1 + rank) divided by its maximum (Järvelin & Kekäläinen, with gains of 1).
double gain(const Metric& metric, std::span<const int64_t> ranks);

/// The metric over all counted targets; computed from the mean loss for metrics of the loss. 0 without targets.
double get_value(const Metric& metric, const ClassCounts& counts, double loss);

/// Whether the metric over several sets follows from its value over each of them.
bool has_value_over_all_sets(const Metric& metric, const ModelConfig& network);

// Counts of multi-label predictions: sums of integers, so that every mesh gets the same result.

class LabelSets {
 public:
  explicit LabelSets(int64_t labels) : counts_(at::zeros({3, labels}, at::kLong)), rows_(at::zeros({2}, at::kLong)) {}

  /// A label is predicted if its logit is above 0, that is, if its probability is above 1/2. Rows with a kIgnoredTarget
  /// do not count.
  /// - logits, labels [rows, labels]
  void add(const at::Tensor& logits, const at::Tensor& labels);

  /// Sums over all ranks. Collective.
  void sum(const Mesh& mesh);

  /// "accuracy": the fraction of rows whose labels are all correct; "f1": the mean over labels of scikit-learn's
  /// f1_score, 0 for a label that is neither present nor predicted.
  double value(const Metric& metric) const;

 private:
  at::Tensor counts_;  // predicted, actual and both, by label
  at::Tensor rows_;    // all rows, and rows without a mistake
};

}  // namespace modular
