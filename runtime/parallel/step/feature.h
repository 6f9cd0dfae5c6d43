// Interface of the optional parts of a ParallelModel: data-parallel sharding, dropout, objectives, sums of gradients. A
// part implements the hooks that it needs; docs/internals/training-step.md lists them in the order of a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/model/tensors.h"

namespace modular {

struct ShardedParameter;

/// A training step of this rank, before its forwards.
struct TrainingStep {
  int64_t number = 0;                    // in the run
  std::span<const Batch> micro_batches;  // in host memory in begin_step(), on the device in before_forwards()
  // Number of targets, followed by what features append. This rank's numbers in begin_step(); their sums over the
  // data-parallel ranks in before_forwards().
  std::vector<double> counts = {0.0};
  bool is_one_forward = false;  // whether the step is a single forward, followed by its backward
  // Runs the forwards of the step without gradients, for numbers that its first backward depends on.
  std::function<void()> run_forwards = {};
};

/// A backward of one micro-batch through one pipeline stage.
struct StageBackward {
  bool last_of_stage = true;  // whether it is the last of its stage in this step
  bool last_of_step = true;   // whether it is the last of all stages of this rank
  bool with_root = true;      // whether it may leave gradients in parameters of the root unit
};

/// Results of the forwards and backwards of one optimizer step, over the full mesh.
struct StepResult {
  double loss = 0.0;         // mean over all targets of all ranks' batches
  int64_t target_count = 0;  // number of those targets
  double router_loss = 0.0;  // router losses, coefficients included; step() differentiates the sum of both
  double expert_load = 0.0;  // most loaded expert's load over the mean load, averaged over routers; 0 without experts
};

/// Every hook does nothing by default. A ParallelModel calls each hook on all its features, in the order in which
/// parallelize() applied them, so that a hook may be collective.
class Feature {
 public:
  virtual ~Feature() = default;

  // A training step, in the order of the calls.

  /// Called before the micro-batches are copied to the device. Appends numbers of this rank to `step.counts`.
  virtual void begin_step(TrainingStep& /*step*/) {}
  /// Called before the first forward of the step. May call `step.run_forwards()`.
  virtual void before_forwards(const TrainingStep& /*step*/) {}
  /// Called before each forward of a micro-batch through a pipeline stage, in training and in evaluation.
  virtual void before_forward(const Batch& /*micro_batch*/, int64_t /*stage*/) {}
  /// Called in a forward, before a unit that the backward recomputes. Returns a function that restores this position
  /// once, before the recomputation; empty if there is nothing to restore.
  virtual std::function<void()> save_position() { return {}; }
  /// Called before and after each backward that completes gradients of parameters.
  virtual void before_backward(const StageBackward& /*backward*/) {}
  virtual void after_backward(const StageBackward& /*backward*/) {}
  /// Called after the last backward. The gradients of the units' parameters are complete when all features return.
  virtual void end_step() {}
  /// Modifies the gradients of this rank's slices, e.g. sums them over ranks that hold the same slices.
  virtual void reduce_gradients(std::vector<ShardedParameter>& /*slices*/) {}
  /// Returns float64 numbers of this rank's step, on the device, to be summed over the ranks whose batches form a step;
  /// undefined for none.
  virtual at::Tensor statistics() { return {}; }
  /// Takes these sums. Returns numbers to be summed over the pipeline stages.
  virtual std::vector<double> take_statistics(std::span<const double> /*sums*/) { return {}; }
  /// Adds what the sums over the stages say to the result of the step.
  virtual void report(std::span<const double> /*sums*/, StepResult& /*result*/) const {}
  /// Called after the optimizer updated the parameters.
  virtual void after_update() {}

  // Forwards without a backward.

  /// Called before the forwards of an evaluation.
  virtual void begin_evaluation() {}
  /// Called after them. Adds this rank's sums that are not those of single forwards.
  virtual void end_evaluation(double& /*loss_sum*/, double& /*target_count*/) {}
  /// Called after forwards that no backward follows.
  virtual void end_forwards() {}
};

}  // namespace modular
