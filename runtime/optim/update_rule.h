// The interface of update rules: two functions in a table, without state of their own.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/optim/options.h"
#include "runtime/parallel/parameters/sharded_parameter.h"

namespace modular {

/// The slices of a parameter that each rank of a group holds. Any two slices are either equal or disjoint.
struct Holders {
  std::vector<std::vector<ParameterSlice>> slices;
  // Parallel to `slices`: whether no earlier rank holds the same slice. These slices cover the full parameter once.
  std::vector<std::vector<bool>> first;
};

/// The holders of each parameter among the ranks of `group`. Collective: every rank passes the same parameters. A null
/// group stands for this rank alone.
std::vector<Holders> find_holders(std::span<const ShardedParameter* const> parameters, const ProcessGroup& group,
                                  const at::Device& device);

/// A parameter and its optimizer state.
struct Updated {
  ShardedParameter* parameter = nullptr;
  std::span<ShardedParameter> state;  // created by UpdateRule::state
  const Holders* holders = nullptr;   // among the ranks along UpdateRule::axes; null without axes
};

/// Changes to the gradients before an update, each [] float32 on the parameters' device, as fused kernels need it.
struct GradientScale {
  std::optional<at::Tensor> divisor;  // divisor of the gradients
  std::optional<at::Tensor> skipped;  // 1 to skip the update, else 0
};

/// One update of parameters with the same rule and options.
struct Step {
  int64_t number;                      // counted from 1
  const at::Tensor& number_on_device;  // `number` on the parameters' device, [] float32
  double lr, weight_decay;
  const GradientScale& scale;  // for a rule that `scales_gradients`
  const OptimizerOptions& options;
  Mesh& mesh;
};

struct UpdateRule {
  /// Creates the state of a parameter, all zero.
  std::vector<ShardedParameter> (*state)(const ShardedParameter& parameter, const OptimizerOptions& options,
                                         const Mesh& mesh);
  /// Updates the parameters' `local` and their state. All have gradients. Collective along `axes`: a rank may hold
  /// nothing of some parameters.
  void (*update)(std::span<const Updated> parameters, const Step& step);
  /// Axes along which the rule needs more of a parameter than a rank's own slices. Empty: every element is updated
  /// independently.
  std::vector<Axis> axes = {};
  /// Whether update() applies Step::scale itself, in the same pass over memory and without the host.
  bool scales_gradients = false;
  /// Whether update() accepts bfloat16 gradients; other rules get them in float32.
  bool takes_bf16_gradients = false;
};

/// A state tensor "optimizer.<what>.<parameter>" with the parameter's layout, all zero.
ShardedParameter state_like(const ShardedParameter& parameter, const std::string& what);

extern const UpdateRule kAdamW, kSgd, kAdafactor, kMuon;

}  // namespace modular
