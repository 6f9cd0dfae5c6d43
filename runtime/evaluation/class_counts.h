// Counts of class predictions and targets. Sums of integers do not depend on their order, so every mesh gets the same
// result.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "runtime/mesh/mesh.h"

namespace modular {

struct ClassCounts {
  // All [classes] int64, in host memory; undefined if nothing was counted.
  at::Tensor target_ranks;  // number of targets whose logit ranks first, second, … among all classes
  at::Tensor predicted;     // number of times each class has the largest logit
  at::Tensor actual;        // number of times each class is the target
  at::Tensor correct;       // number of times both

  static ClassCounts zeros(int64_t classes);

  /// Counts each target other than kIgnoredTarget. Of equal logits, the lower class ranks first.
  /// - logits [..., classes]
  /// - targets [...] int64
  void add(const at::Tensor& logits, const at::Tensor& targets);

  /// Sums over all ranks. Collective.
  void sum(const Mesh& mesh);
};

}  // namespace modular
