// How predictions of several labels a row hit, counted: sums of integers, so that every mesh finds the same.
#pragma once

#include <ATen/ATen.h>

#include "runtime/evaluation/metric.h"
#include "runtime/mesh/mesh.h"

namespace modular {

class LabelSets {
 public:
  explicit LabelSets(int64_t labels) : counts_(at::zeros({3, labels}, at::kLong)), rows_(at::zeros({2}, at::kLong)) {}

  /// A label is predicted where its logit is above 0, and so is likelier than not. Rows with a kIgnoredTarget do not
  /// count.
  /// - logits, right [rows, labels]
  void add(const at::Tensor& logits, const at::Tensor& right);

  /// Sums over all ranks. Collective.
  void sum(const Mesh& mesh);

  /// "accuracy": the share of rows all of whose labels are right; "f1": the mean over labels of scikit-learn's
  /// f1_score, 0 for a label that neither is right nor was predicted.
  double value(const Metric& metric) const;

 private:
  at::Tensor counts_;  // predicted, right and both, by label
  at::Tensor rows_;    // all, and those without a mistake
};

}  // namespace modular
