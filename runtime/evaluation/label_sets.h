// Counts of multi-label predictions: sums of integers, so that every mesh gets the same result.
#pragma once

#include <ATen/ATen.h>

#include "runtime/evaluation/metric.h"
#include "runtime/mesh/mesh.h"

namespace modular {

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
