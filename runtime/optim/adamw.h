// AdamW (Loshchilov & Hutter, Decoupled Weight Decay Regularization) over the boxes that a rank keeps of a model.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "runtime/parallel/sharded_parameter.h"

namespace modular {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  // Of matrices and tables only: norms and biases (one dimension) never decay, nor do state spaces' rates, "A_log".
  double weight_decay = 0.1;
};

/// Updates boxes in place with ATen's fused kernel. Every element is updated on its own, so the result does not depend
/// on how the parameters are cut into boxes.
class AdamW {
 public:
  /// `parameters` must outlive the optimizer; their `local` tensors keep their storage. Those that are not trainable
  /// have no moments.
  AdamW(std::vector<ShardedParameter>& parameters, const AdamWOptions& options);

  /// One update with the gradients that the boxes hold. A box without a gradient stays as it is.
  void step(double lr);

  /// Moments by the names "optimizer.exp_avg.<parameter>" and "optimizer.exp_avg_sq.<parameter>", laid out as the
  /// parameters are; what is written into their `local` is what the next step reads.
  std::vector<ShardedParameter>& state() { return state_; }

  /// Updates made so far; a checkpoint keeps it beside state().
  int64_t steps() const;
  void set_steps(int64_t steps);

 private:
  std::vector<ShardedParameter>& parameters_;
  AdamWOptions options_;
  std::vector<size_t> trained_;          // parameters, by number
  std::vector<ShardedParameter> state_;  // exp_avg of the i-th of them at 2 i, its exp_avg_sq after it
  at::Tensor steps_;                     // [] float32, as the fused kernel wants it
};

}  // namespace modular
