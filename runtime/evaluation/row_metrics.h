// Metrics of per-row results, which are gathered from all ranks in the order of the rows.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/evaluation/metric.h"
#include "runtime/mesh/mesh.h"

namespace modular {

// Per-row results of an evaluation from all ranks, in the order of the rows, which is the same on every mesh.

/// Collects rows part by part, each with its position in the sample order.
class GatheredRows {
 public:
  /// - rows [rows, width], of one type and width
  /// - samples [rows] int64: their positions in the sample order
  void add(const at::Tensor& rows, const at::Tensor& samples);

  /// The rows of all ranks, sorted by position, in host memory; of type `type` even if no rank has any. Collective.
  at::Tensor all(at::ScalarType type, const Mesh& mesh) const;  // [all rows, width]

 private:
  std::vector<at::Tensor> rows_, samples_;
};

// Correlation and error metrics of predicted and actual numbers.

class NumberPairs {
 public:
  /// - predicted, actual [rows, numbers], compared number by number; kIgnoredTarget for numbers that do not count
  /// - samples [rows] int64: the positions of the rows in the sample order
  void add(const at::Tensor& predicted, const at::Tensor& actual, const at::Tensor& samples);

  /// Values of metrics of numbers, over the numbers of all rows and ranks. Collective.
  std::vector<double> values(const std::vector<Metric>& metrics, const Mesh& mesh) const;

 private:
  GatheredRows rows_;  // predicted and actual: [rows, 2 * numbers]
};

/// The mean squared error and the mean absolute error; 0 if there are no numbers.
double mean_squared_error(const at::Tensor& predicted, const at::Tensor& actual);
double mean_absolute_error(const at::Tensor& predicted, const at::Tensor& actual);
/// Pearson's correlation of two equally long vectors; 0 if all numbers of one are equal.
double pearson(const at::Tensor& a, const at::Tensor& b);
/// Spearman's correlation: Pearson's correlation of the numbers' ranks, where ties have their mean rank.
double spearman(const at::Tensor& a, const at::Tensor& b);

// Retrieval metrics of embeddings: how well they find their matches among all embeddings of an evaluation, by cosine.

class RowRanking {
 public:
  /// With one text per sample, each text searches for the others with its label among all other texts. With several
  /// texts, the first searches for its sample's second among all texts but the first of all samples.
  /// - embeddings [samples, texts, hidden]
  /// - labels [samples]; kIgnoredTarget for samples that do not count
  /// - samples [samples] int64: their positions in the sample order, which is the same on every mesh
  void add(const at::Tensor& embeddings, const at::Tensor& labels, const at::Tensor& samples);

  /// The mean of each metric's gain over the texts that have a match. Of equal cosines, the earlier text ranks first.
  /// Metrics of ranks only. Collective: each rank ranks a part of the samples.
  std::vector<double> values(const std::vector<Metric>& metrics, const Mesh& mesh) const;

 private:
  GatheredRows embeddings_;  // [samples, texts * hidden]
  GatheredRows labels_;      // [samples, 2]: label and number of texts, for ranks without samples
};

}  // namespace modular
