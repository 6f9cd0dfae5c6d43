// How what a model says goes with what is right, where both are numbers.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/evaluation/gathered_rows.h"
#include "runtime/evaluation/metric.h"
#include "runtime/mesh/mesh.h"

namespace modular {

class NumberPairs {
 public:
  /// - said, right [rows, numbers], compared number by number; kIgnoredTarget for what is not right or wrong
  /// - samples [rows] int64: the places of the rows in the order of all
  void add(const at::Tensor& said, const at::Tensor& right, const at::Tensor& samples);

  /// Metrics of numbers only, over the numbers of all rows and ranks. Collective.
  std::vector<double> values(const std::vector<Metric>& metrics, const Mesh& mesh) const;

 private:
  GatheredRows rows_;  // said and right: [rows, 2 * numbers]
};

/// The mean squared error of the numbers, and the mean absolute one; 0 of none.
double mean_squared_error(const at::Tensor& said, const at::Tensor& right);
double mean_absolute_error(const at::Tensor& said, const at::Tensor& right);
/// Pearson's correlation of two rows of as many numbers; 0 where all of one are equal.
double pearson(const at::Tensor& a, const at::Tensor& b);
/// Spearman's: that of the numbers' ranks, of which equal numbers have the mean.
double spearman(const at::Tensor& a, const at::Tensor& b);

}  // namespace modular
