// The optimizer of a model's parameters: its update rules, its options by parameter group, and its state; and gradient
// clipping.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/optim/options.h"
#include "runtime/optim/update_rule.h"
#include "runtime/parallel/parameters/sharded_parameter.h"

namespace modular {

/// An optimizer: one update rule for all parameters, or one for the matrices of layers and another for the rest.
struct OptimizerKind {
  std::string_view name;
  const UpdateRule* layer_matrix_rule;
  const UpdateRule* other_rule;
  std::vector<std::string_view> options;  // members of OptimizerOptions that it reads in addition to the common ones
  double (*least_state)(const OptimizerOptions& options);  // elements of state per element of a parameter, at least

  /// Whether an update needs more of a parameter than a rank's own slices.
  bool communicates() const { return !layer_matrix_rule->axes.empty() || !other_rule->axes.empty(); }
};

/// All optimizers: "adamw", "sgd", "adafactor" and "muon".
const std::vector<OptimizerKind>& optimizer_kinds();

/// The optimizer with this name. Throws std::invalid_argument if there is none.
const OptimizerKind& optimizer_kind(std::string_view name);

// The norm of the full gradient, and gradient clipping by norm (Pascanu et al., On the difficulty of training recurrent
// neural networks). Both are computed on the gradients' device, so the host does not wait for them.

/// Norm of the model's full gradient, the same on every rank and on every mesh; on the mesh's device.
struct GradientNorm {
  at::Tensor norm;       // [] float64: the Euclidean norm
  at::Tensor is_finite;  // [] float64: 1, or 0 if the norm or a rank's loss is not finite
};

/// Collective over the world (one all-reduce of two numbers). Each slice counts on the rank that owns it. `loss` [] is
/// this rank's part of the loss; if undefined, losses are not checked.
GradientNorm find_gradient_norm(const std::vector<ShardedParameter>& parameters, Mesh& mesh,
                                const at::Tensor& loss = {});

/// Changes to the gradients before the update. An undefined member changes nothing.
struct Clipping {
  at::Tensor divisor;  // [] float64: divisor of the gradients, at least 1
  at::Tensor skipped;  // [] float64: 1 to skip the update, else 0
};

/// Clips a gradient of this norm to at most `max_norm`; a max_norm of 0 does not clip. The update is skipped if the
/// norm or the loss is not finite.
Clipping clipping_to(double max_norm, const GradientNorm& gradient);

/// Updates the slices of a model that a rank keeps. Every rank of a pipeline stage constructs it, and calls step(),
/// with the same parameters in the same order.
class Optimizer {
 public:
  /// `parameters` and `mesh` must outlive the optimizer; the parameters' `local` tensors keep their storage. Parameters
  /// that are not trainable have no state. Collective over the ranks that share the parameters.
  Optimizer(std::vector<ShardedParameter>& parameters, const OptimizerOptions& options, Mesh& mesh);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Makes one update with the gradients that the slices hold, which may be modified. A parameter without a gradient on
  /// any rank is not changed. If the clipping skips the update, nothing is changed, but the step is counted; the caller
  /// takes it back with set_steps() once it knows. The host waits for a GPU only if a rule must know whether the update
  /// is skipped, or if the parameters are not on the GPU.
  void step(double lr, const Clipping& clipping = {});

  /// The optimizer state, named "optimizer.<what>.<parameter>", in slices like parameters. The next step reads whatever
  /// is written into their `local`.
  std::vector<ShardedParameter>& state() { return state_; }

  /// Number of updates so far; a checkpoint stores it with state().
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 private:
  /// Parameters with the same rule and options.
  struct Bucket {
    const UpdateRule* rule;
    double lr_scale, weight_decay;
    std::vector<Updated> members;
    std::vector<Holders> holders;  // parallel to members, if the rule needs them
  };

  /// Converts `clipping` for the rules, on the parameters' device; nullopt if the step is known to be skipped.
  std::optional<GradientScale> get_scale(const Clipping& clipping) const;

  OptimizerOptions options_;
  Mesh& mesh_;
  std::vector<ShardedParameter> state_;
  std::vector<Bucket> buckets_;
  int64_t steps_ = 0;
  at::Tensor steps_on_device_;  // [] float32, as fused kernels need it, on the parameters' device
};

/// The group of a parameter with these names: the last group that matches, or null.
const ParameterGroup* find_group(const std::vector<ParameterGroup>& groups, const std::vector<std::string>& names);

}  // namespace modular
