// Pipeline parallelism over a mesh's `pp` axis: each rank runs its stages of the model on one micro-batch after the
// other, in the order of a schedule.
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
#include "runtime/parallel/pipeline_messages.h"
#include "runtime/parallel/pipeline_options.h"
#include "runtime/parallel/pipeline_schedule.h"
#include "runtime/parallel/pipeline_stages.h"
#include "runtime/parallel/schedule_simulator.h"
#include "runtime/parallel/stage_graph.h"

namespace modular {

/// How a stage runs the model. All ranks make the same calls.
struct StageFunctions {
  /// Runs the model's entry, with this pipeline's stage installed.
  std::function<Outputs(const Batch& micro_batch)> forward;
  /// Runs `autograd`, which is the backward of one forward, or one half of it. Parameters' gradients are left to
  /// accumulate.
  std::function<void(const PipelineAction& action, const std::function<void()>& autograd)> backward;
  /// Whether a backward can be cut in two. Else I computes all gradients, and W none; `backward` is not called for it.
  bool can_cut = true;
};

/// Sums over the micro-batches of one run, [] float64 where they were computed, on the rank of the last stage;
/// undefined on the others.
struct PipelineSums {
  Tensor loss_sum, token_count;
};

/// One rank's part of a pipeline. Collective over the `pp` axis: all ranks construct and call it in the same way, with
/// the same micro-batches. It is to be bound (Parallel::stage) while the functions that it is given run, and answers
/// for the stage that they run for.
class Pipeline final : public pp::Stage {
 public:
  /// `mesh` has a `pp` axis larger than 1, for which pipeline_error(options) says nothing; `options.cuts` are given.
  /// `sizes`: stack_sizes() of the model.
  Pipeline(Mesh& mesh, const PipelineOptions& options, const std::vector<int64_t>& sizes = {});

  bool is_first() const override { return placed().is_first(); }
  bool is_last() const override { return placed().is_last(); }
  Tensor received() override;
  bool first_stack() override { return placed().first_stack(); }
  bool second_stack(const Tensor& between) override;
  std::pair<int64_t, int64_t> span(int64_t list_size) const override { return placed().span(list_size); }

  /// The number of the stage that runs.
  int64_t running() const { return running_; }
  int64_t stages() const { return static_cast<int64_t>(stage_ranks_.size()); }
  /// The stages of this rank, ascending.
  std::vector<StageOnRank> own_stages() const;
  /// The pp rank that holds the first stage.
  int64_t first_rank() const { return stage_ranks_.front(); }

  /// Forward and backward of every micro-batch, as the schedule says. Each micro-batch's loss_sum is differentiated
  /// times `loss_scale`.
  PipelineSums train(std::span<const Batch> micro_batches, const StageFunctions& functions, double loss_scale);

  /// Forwards only, without gradients. Batches without labels add nothing.
  PipelineSums evaluate(std::span<const Batch> batches, const StageFunctions& functions);

  /// The sums over the ranks of what each found.
  std::vector<double> sum(std::vector<double> values, const std::string& what) const;

  /// The logits of one batch, on every rank.
  Tensor logits(const Batch& batch, const StageFunctions& functions);

  /// Has the ranks of the first and the last stage meet before a step does, where they share parameters. Others return
  /// at once.
  void connect_ends();

  /// Makes each gradient of a parameter that the first and the last stage share the sum of the two; the ranks of both
  /// give them in the same order. Ranks between give none. Where both stages lie on one rank, they have added already.
  void sum_between_ends(std::span<Tensor> gradients);

 private:
  const StageOnRank& placed() const { return placed_[static_cast<size_t>(running_)]; }
  StageOnRank& placed() { return placed_[static_cast<size_t>(running_)]; }

  /// A checked schedule.
  struct Prepared {
    PipelineSchedule schedule;
    Simulation simulation;
  };
  class Run;

  /// Whether this rank has one of the first and the last stage, and another rank the other one.
  bool is_at_an_end() const;
  /// What the other of these two ranks has of the shape of `own`. Both call it.
  Tensor communicate_between_ends(const Tensor& own, const std::string& what);

  const Prepared& prepared(bool trains, int64_t micro_batches);

  at::Device device_;
  int64_t own_;
  PipelineOptions options_;
  std::vector<int64_t> stage_ranks_;
  std::vector<StageOnRank> placed_;  // all stages
  PipelineMessages messages_;
  ProcessGroup backwards_;
  std::map<std::pair<bool, int64_t>, Prepared> prepared_;  // by whether it trains, and micro-batches
  int64_t running_ = 0;
  // Of the micro-batch that is being run: what the stage before made, and within a second tower what goes along with
  // it.
  std::vector<Tensor> received_;
  Tensor between_;  // what the first tower made, where a later stage runs some of the second
};

}  // namespace modular
