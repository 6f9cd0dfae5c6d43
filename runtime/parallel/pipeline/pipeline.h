// Pipeline parallelism over a mesh's `pp` axis: each rank runs its stages of the model on one micro-batch after
// another, in the order of a schedule.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/model/pp.h"
#include "runtime/parallel/pipeline/pipeline_messages.h"
#include "runtime/parallel/pipeline/pipeline_options.h"
#include "runtime/parallel/pipeline/pipeline_schedule.h"
#include "runtime/parallel/pipeline/pipeline_stages.h"
#include "runtime/parallel/pipeline/stage_graph.h"

namespace modular {

/// Functions that run a stage of the model. All ranks make the same calls.
struct StageFunctions {
  /// Runs the model's entry with this pipeline's stage bound.
  std::function<Outputs(const Batch& micro_batch)> forward;
  /// Runs `autograd`, which is the backward of one forward, or one half of it. Parameter gradients accumulate.
  std::function<void(const PipelineAction& action, const std::function<void()>& autograd)> backward;
  /// Whether a backward can be split. Otherwise I computes all gradients and W does nothing; `backward` is not called
  /// for W.
  bool can_cut = true;
};

/// Sums over the micro-batches of one run: scalar float64 tensors on the device of the last stage's rank; undefined on
/// the other ranks.
struct PipelineSums {
  Tensor loss_sum, token_count;
};

/// Sum of values that forwards return; the host does not wait for them.
class RunningSum {
 public:
  void add(const at::Tensor& value) {
    if (value.defined()) sum_ = sum_.defined() ? sum_ + value.detach() : value.detach().to(at::kDouble);
  }
  /// Scalar float64 tensor on the device of the values; undefined if nothing was added.
  const at::Tensor& tensor() const { return sum_; }

 private:
  at::Tensor sum_;
};

/// One rank's part of a pipeline. Collective over the `pp` axis: all ranks construct and call it in the same way, with
/// the same micro-batches. It must be bound (Parallel::stage) while the given functions run, and represents the stage
/// that they run.
class Pipeline final : public pp::Stage {
 public:
  /// `mesh` must have a `pp` axis larger than 1, and pipeline_error(options) must be empty; `options.cuts` must be set.
  /// `sizes`: stack_sizes() of the model.
  Pipeline(Mesh& mesh, const PipelineOptions& options, const std::vector<int64_t>& sizes = {});

  bool is_first() const override { return placed().is_first(); }
  bool is_last() const override { return placed().is_last(); }
  Tensor received() override;
  bool first_stack() override { return placed().first_stack(); }
  bool second_stack(const Tensor& between) override;
  std::pair<int64_t, int64_t> span(int64_t list_size) const override { return placed().span(list_size); }

  /// Index of the running stage.
  int64_t running() const { return running_; }
  int64_t stages() const { return static_cast<int64_t>(stage_ranks_.size()); }
  /// Stages of this rank, ascending.
  std::vector<StageOnRank> own_stages() const;
  /// The pp rank of the first stage.
  int64_t first_rank() const { return stage_ranks_.front(); }

  /// Runs forward and backward of every micro-batch in the order of the schedule. Each micro-batch's loss_sum is scaled
  /// by `loss_scale` before it is differentiated.
  PipelineSums train(std::span<const Batch> micro_batches, const StageFunctions& functions, double loss_scale);

  /// Runs only forwards, without gradients. Batches without labels add nothing to the sums.
  PipelineSums evaluate(std::span<const Batch> batches, const StageFunctions& functions);

  /// Sums `values` over the pp ranks.
  std::vector<double> sum(std::vector<double> values, const std::string& what) const;

  /// Returns the logits of one batch on every rank.
  Tensor logits(const Batch& batch, const StageFunctions& functions);

  /// Establishes the connection between the ranks of the first and the last stage before a step needs it, if these
  /// share parameters. Other ranks return immediately.
  void connect_ends();

  /// Sums the gradients of parameters that the first and the last stage share; both ranks pass them in the same order,
  /// other ranks pass none. If both stages are on one rank, autograd has already added them.
  void sum_between_ends(std::span<Tensor> gradients);

 private:
  const StageOnRank& placed() const { return placed_[static_cast<size_t>(running_)]; }
  StageOnRank& placed() { return placed_[static_cast<size_t>(running_)]; }

  /// A validated schedule.
  struct Prepared {
    PipelineSchedule schedule;
    Simulation simulation;
  };
  class Run;

  /// Whether exactly one of the first and the last stage is on this rank.
  bool is_at_an_end() const;
  /// Sends `own` to the other of these two ranks and returns its tensor of the same shape. Both ranks must call it.
  Tensor communicate_between_ends(const Tensor& own, const std::string& what);

  const Prepared& prepared(bool trains, int64_t micro_batches);

  at::Device device_;
  int64_t own_;
  PipelineOptions options_;
  std::vector<int64_t> stage_ranks_;
  std::vector<StageOnRank> placed_;  // all stages
  PipelineMessages messages_;
  ProcessGroup backwards_;
  std::map<std::pair<bool, int64_t>, Prepared> prepared_;  // by (trains, micro-batches)
  int64_t running_ = 0;
  // Input of the running micro-batch: the output of the previous stage and, within the second stack, the output of the
  // first stack.
  std::vector<Tensor> received_;
  Tensor between_;  // output of the first stack, if a later stage runs part of the second
};

}  // namespace modular
