// The form that each way of updating parameters takes: two functions in a table, without state of their own.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/optim/holders.h"
#include "runtime/optim/options.h"
#include "runtime/parallel/parameters/sharded_parameter.h"

namespace modular {

/// A parameter with what is kept beside it.
struct Updated {
  ShardedParameter* parameter = nullptr;
  std::span<ShardedParameter> state;  // as UpdateRule::state made it
  const Holders* holders = nullptr;   // among the ranks along UpdateRule::axes; null where there are no axes
};

/// What is made of gradients before an update, each [] float32 where the parameters are, as fused kernels want it.
struct GradientScale {
  std::optional<at::Tensor> divisor;  // what they are divided by
  std::optional<at::Tensor> skipped;  // 1 where nothing is to be updated, else 0
};

/// One update of parameters that are treated alike.
struct Step {
  int64_t number;                  // counted from 1
  const at::Tensor& number_there;  // the same where the parameters are, [] float32
  double lr, weight_decay;
  const GradientScale& scale;  // for a rule that `scales_gradients`
  const OptimizerOptions& options;
  Mesh& mesh;
};

struct UpdateRule {
  /// What is kept beside a parameter, all zero.
  std::vector<ShardedParameter> (*state)(const ShardedParameter& parameter, const OptimizerOptions& options,
                                         const Mesh& mesh);
  /// Updates the parameters' `local` and their state. All have gradients. Collective along `axes`: some ranks may hold
  /// nothing of some of them.
  void (*update)(std::span<const Updated> parameters, const Step& step);
  /// The ranks along these see more of a parameter than their own slices. Empty: every element is updated on its own.
  std::vector<Axis> axes = {};
  /// Whether update() does what Step::scale says: in the pass over memory in which it updates, and without the host.
  bool scales_gradients = false;
  /// Whether update() takes bfloat16 gradients; others get them in float32.
  bool takes_bf16_gradients = false;
};

/// Something of a parameter's own layout that is kept beside it, "optimizer.<what>.<parameter>", zero.
ShardedParameter state_like(const ShardedParameter& parameter, const std::string& what);

extern const UpdateRule kAdamW, kSgd, kAdafactor, kMuon;

}  // namespace modular
