// How well rows find those of their own label among all rows of an evaluation, by the cosine of their embeddings.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/evaluation/metric.h"
#include "runtime/mesh/mesh.h"

namespace modular {

class RowRanking {
 public:
  /// - embeddings [rows, hidden]
  /// - labels [rows] int64; kIgnoredTarget for rows that do not count
  /// - samples [rows] int64: the places of the rows in the order of all, which is the same on every mesh
  void add(const at::Tensor& embeddings, const at::Tensor& labels, const at::Tensor& samples);

  /// The mean of each metric's gain over the rows that another row shares its label with: the places are those of these
  /// others among all other rows; of equal cosines the earlier row stands first. Metrics of ranks only. Collective:
  /// each rank ranks a part of the rows.
  std::vector<double> values(const std::vector<Metric>& metrics, const Mesh& mesh) const;

 private:
  std::vector<at::Tensor> embeddings_, labels_, samples_;  // in host memory
};

}  // namespace modular
