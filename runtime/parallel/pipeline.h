// Pipeline parallelism over a mesh's `pp` axis (Narayanan et al.): each rank runs its stage of the model on one
// micro-batch after the other, activations go to the stage after it and gradients to the one before.
#pragma once

#include <ATen/ATen.h>

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/mesh/collectives.h"
#include "runtime/mesh/mesh.h"
#include "runtime/model/pp.h"
#include "runtime/parallel/pipeline_schedule.h"
#include "runtime/parallel/pipeline_stages.h"

namespace modular {

/// How a stage runs the model. All stages make the same calls.
struct StageFunctions {
  /// Runs the model's entry, with this pipeline's stage installed.
  std::function<Outputs(const Batch& micro_batch)> forward;
  /// Runs autograd from one output of that forward. Parameters' gradients are left to accumulate.
  std::function<void(const Tensor& output, const Tensor& gradient)> backward;
};

/// Sums over the micro-batches of one run, the same on all stages.
struct PipelineSums {
  double loss_sum = 0.0;
  int64_t token_count = 0;
};

/// One rank's place in a pipeline. Collective over the `pp` axis: all stages construct and call it in the same way,
/// with the same micro-batches. Its stage is to be installed (pp::stage) while the functions that it is given run.
class Pipeline final : public pp::Stage {
 public:
  /// `mesh` has a `pp` axis larger than 1.
  explicit Pipeline(Mesh& mesh);

  bool is_first() const override { return stage_ == 0; }
  bool is_last() const override { return stage_ == stages_ - 1; }
  Tensor received() override;
  std::pair<int64_t, int64_t> span(int64_t list_size) const override { return stage_span(list_size, stage_, stages_); }

  /// One forward and backward of every micro-batch, as 1F1B. Each micro-batch's loss_sum is differentiated times
  /// `loss_scale`.
  PipelineSums train(std::span<const Batch> micro_batches, const StageFunctions& functions, double loss_scale);

  /// Forwards only, without gradients. Batches without labels add nothing.
  PipelineSums evaluate(std::span<const Batch> batches, const StageFunctions& functions);

  /// The logits of one batch, on every stage.
  Tensor logits(const Batch& batch, const StageFunctions& functions);

  /// Makes each gradient of a parameter that the first and the last stage share the sum of the two; both give them in
  /// the same order. Stages between give none.
  void sum_between_ends(std::span<Tensor> gradients);

 private:
  /// A micro-batch between its forward and its backward.
  struct InFlight {
    Tensor input;   // received; undefined on the first stage
    Tensor output;  // what the backward starts from
  };
  /// A tensor that is on its way to this stage.
  struct Arriving {
    Tensor tensor;
    Pending pending;
  };

  PipelineSums run(std::span<const Batch> micro_batches, const StageFunctions& functions,
                   const PipelineSchedule& schedule, double loss_scale);
  /// Whether this stage starts the action from the batch or the loss, rather than from what a neighbour sends.
  bool is_source(const PipelineAction& action) const;
  /// Whether what the action needs can be received without first asking for its shape.
  bool can_expect(const PipelineAction& action, const Batch& micro_batch) const;
  void start_receiving(const PipelineAction& action, const Batch& micro_batch);
  Tensor receive_for(const PipelineAction& action, const Batch& micro_batch);
  void send_forward(const Tensor& carried, int64_t micro_batch, const Batch& batch);
  void keep_sending(const Tensor& tensor, const ProcessGroup& group, int64_t peer, int tag, const std::string& what);

  at::Device device_;
  int64_t stage_;
  int64_t stages_;
  ProcessGroup forwards_;   // activations
  ProcessGroup backwards_;  // gradients: with NCCL, both directions in one communicator would wait for each other
  Tensor received_;         // of the micro-batch that is being run
  // The shape of activations follows from those of the batch: it is sent once for each, before the first activations.
  std::map<std::vector<int64_t>, Tensor> descriptions_received_;
  std::set<std::vector<int64_t>> descriptions_sent_;
  std::map<std::pair<bool, int64_t>, Arriving> arriving_;  // by (is a gradient, micro-batch)
  std::map<int64_t, InFlight> in_flight_;
  // At most two of each.
  std::deque<std::pair<Tensor, Pending>> sending_forwards_, sending_backwards_;
};

}  // namespace modular
