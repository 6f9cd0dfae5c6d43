// What all ranks found of an evaluation's rows, in the order of the rows, which is the same on every mesh.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/mesh/mesh.h"

namespace modular {

/// Rows that are added part by part, each with its place.
class GatheredRows {
 public:
  /// - rows [rows, width], of one type and width
  /// - samples [rows] int64: their places
  void add(const at::Tensor& rows, const at::Tensor& samples);

  /// The rows of all ranks by their places, in host memory; of type `type` also where no rank has any. Collective.
  at::Tensor all(at::ScalarType type, const Mesh& mesh) const;  // [all rows, width]

 private:
  std::vector<at::Tensor> rows_, samples_;
};

}  // namespace modular
