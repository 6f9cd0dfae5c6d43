// Gradients of replicated parameters, summed over the replicas in buckets while the backward goes on (Li et al.,
// PyTorch Distributed), by c10d's Reducer.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/mesh/mesh.h"

namespace c10d {
class Reducer;
}

namespace modular {

class BucketedReduction {
 public:
  /// `parameters` and their `names`; every backward must give each of them a gradient.
  BucketedReduction(const std::vector<at::Tensor>& parameters, const std::vector<std::string>& names,
                    const ProcessGroup& replicas);
  ~BucketedReduction();

  /// Before the first forward of a step.
  void begin_step();
  /// Before the last backward of a step: when that is done, the parameters' gradients are summed. Those of earlier
  /// backwards are in the sum.
  void begin_last_backward();

 private:
  std::unique_ptr<c10d::Reducer> reducer_;
};

}  // namespace modular
