// How well embeddings find what belongs to them among all of an evaluation, by their cosines.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/evaluation/gathered_rows.h"
#include "runtime/evaluation/metric.h"
#include "runtime/mesh/mesh.h"

namespace modular {

class RowRanking {
 public:
  /// Of one text a sample, each looks for the others of its label among all other texts. Of several, the first looks
  /// for the second of its sample among all texts but the first of all samples.
  /// - embeddings [samples, texts, hidden]
  /// - labels [samples]; kIgnoredTarget for samples that do not count
  /// - samples [samples] int64: their places in the order of all, which is the same on every mesh
  void add(const at::Tensor& embeddings, const at::Tensor& labels, const at::Tensor& samples);

  /// The mean of each metric's gain over the texts that look for something that is there; of equal cosines the earlier
  /// text stands first. Metrics of ranks only. Collective: each rank ranks a part of the samples.
  std::vector<double> values(const std::vector<Metric>& metrics, const Mesh& mesh) const;

 private:
  GatheredRows embeddings_;  // [samples, texts * hidden]
  GatheredRows labels_;      // [samples, 2]: the label and the number of texts, which ranks without samples do not know
};

}  // namespace modular
