// Gradients of replicated parameters, summed over the replicas in buckets while the backward is running (Li et al.,
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
  /// `parameters` and their `names`. A parameter that the first step gives no gradient must never get one.
  BucketedReduction(const std::vector<at::Tensor>& parameters, const std::vector<std::string>& names,
                    const ProcessGroup& replicas);
  ~BucketedReduction();

  /// Before the first forward of a step.
  void begin_step();
  /// Before the last backward of a step: when that is done, the parameters' gradients are summed. Those of earlier
  /// backwards are in the sum.
  void begin_last_backward();
  /// After it.
  void end_step();

 private:
  /// Of the parameters that have a gradient.
  void make_reducer();

  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
  ProcessGroup replicas_;
  // Made after the first step: a bucket with a parameter that gets no gradient would never be complete.
  std::unique_ptr<c10d::Reducer> reducer_;
};

}  // namespace modular
