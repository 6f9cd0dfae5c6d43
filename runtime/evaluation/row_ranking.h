// Retrieval metrics of embeddings: how well they find their matches among all embeddings of an evaluation, by cosine.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/evaluation/gathered_rows.h"
#include "runtime/evaluation/metric.h"
#include "runtime/mesh/mesh.h"

namespace modular {

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
