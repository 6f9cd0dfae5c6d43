// How predictions of classes hit their targets, counted: sums of integers, which are the same in any order, so that
// every mesh finds the same.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "runtime/mesh/mesh.h"

namespace modular {

struct ClassCounts {
  // All [classes] int64, in host memory; undefined where nothing was to be counted.
  at::Tensor places;     // targets that stand first, second, … among all classes by their logits
  at::Tensor predicted;  // how often a class has the largest logit
  at::Tensor actual;     // how often it is the target
  at::Tensor right;      // how often both

  static ClassCounts of(int64_t classes);

  /// Counts each target that is none of kIgnoredTarget. Of equal logits the lower class stands first.
  /// - logits [..., classes]
  /// - targets [...] int64
  void add(const at::Tensor& logits, const at::Tensor& targets);

  /// Sums over all ranks. Collective.
  void sum(const Mesh& mesh);
};

}  // namespace modular
