// Correlation and error metrics of predicted and actual numbers.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/evaluation/gathered_rows.h"
#include "runtime/evaluation/metric.h"
#include "runtime/mesh/mesh.h"

namespace modular {

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

}  // namespace modular
