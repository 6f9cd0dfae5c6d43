// Per-row results of an evaluation from all ranks, in the order of the rows, which is the same on every mesh.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/mesh/mesh.h"

namespace modular {

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

}  // namespace modular
