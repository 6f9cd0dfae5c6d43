// What updates a model's parameters: which optimizer, with which settings for which of them, and what it keeps beside
// them.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/optim/clip.h"
#include "runtime/optim/options.h"
#include "runtime/optim/update_rule.h"
#include "runtime/parallel/parameters/sharded_parameter.h"

namespace modular {

/// One update rule for all parameters, or one for the matrices of layers and one for the rest.
struct OptimizerKind {
  std::string_view name;
  const UpdateRule* of_layer_matrices;
  const UpdateRule* of_others;
  std::vector<std::string_view> settings;  // members of OptimizerOptions that it reads, beside those that all read
};

/// All optimizers: "adamw", "sgd", "adafactor" and "muon".
const std::vector<OptimizerKind>& optimizer_kinds();

/// The one of that name. Throws std::invalid_argument where there is none.
const OptimizerKind& optimizer_kind(std::string_view name);

/// Updates the slices that a rank keeps of a model. Every rank of a pipeline stage constructs it, and calls step(),
/// with the same parameters in the same order.
class Optimizer {
 public:
  /// `parameters` and `mesh` must outlive it; the parameters' `local` tensors keep their storage. Those that are not
  /// trainable have no state. Collective over the ranks that share the parameters.
  Optimizer(std::vector<ShardedParameter>& parameters, const OptimizerOptions& options, Mesh& mesh);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update with the gradients that the slices hold, which may change. A parameter without a gradient, on every
  /// rank, stays as it is. Where the clipping says that it is skipped, nothing is updated: the step counts
  /// nevertheless, and is taken back by set_steps() by whoever gets to know. The host waits for a GPU only where a rule
  /// needs to know that, or where the parameters are not on the GPU.
  void step(double lr, const Clipping& clipping = {});

  /// What is kept beside the parameters, by the names "optimizer.<what>.<parameter>", in slices as parameters are; what
  /// is written into their `local` is what the next step reads.
  std::vector<ShardedParameter>& state() { return state_; }

  /// Updates made so far; a checkpoint keeps it beside state().
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 private:
  /// Parameters that are updated alike.
  struct Bucket {
    const UpdateRule* rule;
    double lr_scale, weight_decay;
    std::vector<Updated> members;
    std::vector<Holders> holders;  // beside members, where the rule asks for them
  };

  /// `clipping` as rules take it, where the parameters are; nothing where the step is known to be skipped.
  std::optional<GradientScale> get_scale(const Clipping& clipping) const;

  OptimizerOptions options_;
  Mesh& mesh_;
  std::vector<ShardedParameter> state_;
  std::vector<Bucket> buckets_;
  int64_t steps_ = 0;
  at::Tensor steps_on_device_;  // [] float32, as fused kernels want it, where the parameters are
};

/// The group of a parameter with these names: the last one that matches. Null where none does.
const ParameterGroup* find_group(const std::vector<ParameterGroup>& groups, const std::vector<std::string>& names);

}  // namespace modular
