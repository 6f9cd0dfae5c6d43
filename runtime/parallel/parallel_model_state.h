// State of a ParallelModel: its parts, in construction order.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "runtime/model/dp.h"
#include "runtime/parallel/fsdp/unit_parameters.h"
#include "runtime/parallel/fsdp/unit_runner.h"
#include "runtime/parallel/memory/host_gradients.h"
#include "runtime/parallel/memory/saved_tensors.h"
#include "runtime/parallel/objectives/class_sampler.h"
#include "runtime/parallel/objectives/router_balance.h"
#include "runtime/parallel/objectives/sentence_objective.h"
#include "runtime/parallel/parallel_model.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/parameter_table.h"
#include "runtime/parallel/parameters/uneven_splits.h"
#include "runtime/parallel/pipeline/pipeline.h"
#include "runtime/parallel/random/dropout_rng.h"
#include "runtime/parallel/tensor/tensor_parallel.h"
#include "runtime/parallel/thread_replicas.h"

namespace modular {

struct ParallelModel::State {
  const Entry& entry;
  Mesh& mesh;
  ParallelOptions options;
  Model model;
  ParameterTable table;
  std::vector<UnitParameters> units;  // parallel to table.units
  std::vector<ShardedParameter> slices;
  std::vector<ShardedParameter> buffers;
  std::vector<std::pair<size_t, size_t>> layout_indices;  // parallel to slices: unit, and index in its layout
  std::vector<size_t> shared_between_stages;  // slices whose gradient is summed over the first and the last stage
  std::vector<size_t> in_every_stage;         // slices whose gradient is summed over all stages
  std::set<int64_t> stages_with_root;         // stages of this rank that use parameters of the root unit
  // Whether the modules compute with the slices themselves, so that the backward accumulates gradients in their final
  // location.
  bool in_place = false;
  std::optional<SavedTensors> saved;
  std::optional<UnitRunner> runner;
  std::unique_ptr<tp::TensorParallel> tensor_parallel;
  SharedSlices shared_slices;
  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<dp::DataParallel> rows_of_ranks;
  ProcessGroup data_parallel;  // ranks whose batches form a step
  std::optional<StepDropoutRng> dropout;
  std::optional<ClassSampler> sampler;  // if the loss is over a sample of the classes
  std::optional<RouterBalance> routers;
  std::optional<SentenceObjective> sentences;
  HostGradients host_gradients;  // if the optimizer is offloaded
  std::optional<ThreadReplicas> replicas;

  State(const Entry& entry, const AnyConfig& config, Mesh& mesh, const ParallelOptions& options)
      : entry(entry), mesh(mesh), options(options), model(build_on_meta(entry, config)) {}

  /// Returns the slices that make up `slice` of a parameter on this rank. Among replicas and stages that hold a slice,
  /// the first owns it.
  std::vector<ParameterSlice> owned_slices(const ModelParameter& parameter, const Slice& slice) const;
  const ParameterPlacement& placement(size_t slice) const {
    return units[layout_indices[slice].first].layout().parameters[layout_indices[slice].second];
  }
  Parallel parallel() {
    return {.units = runner ? &*runner : nullptr,
            .tp = tensor_parallel.get(),
            .stage = pipeline.get(),
            .dp = rows_of_ranks.get(),
            .sentences = sentences ? &*sentences : nullptr};
  }

  /// Whether the model computes with a bfloat16 copy of the parameters that exists only on this rank.
  bool has_local_compute_copy() const {
    return options.bf16 && mesh.shape().ranks() == 1 && !options.offload.optimizer && !options.offload.parameters;
  }

  void shard_parameters();
  void describe_slices();
  void allocate_buffers();
  void choose_reduction();

  void begin_step(size_t micro_batches);
  Outputs forward(const Batch& batch);
  /// Runs `autograd`, which accumulates parameter gradients. For the other arguments see UnitRunner.
  void backward(const std::function<void()>& autograd, bool last_of_stage, bool last_of_step, bool with_root);
  void end_step();
  StageFunctions stage_functions(size_t micro_batches);
  /// Number of targets of this rank's micro-batches, computed before their forwards; equals what the forwards count.
  int64_t count_own_targets(std::span<const Batch> micro_batches) const;
  /// Computes the loss that compares samples across a step, before its first backward needs it.
  void compare_samples(std::span<const Batch> micro_batches);
  /// Counts the expert choices of a step, before its first backward needs them.
  void count_choices(std::span<const Batch> micro_batches);
  PipelineSums train(std::span<const Batch> micro_batches, double scale);
  PipelineSums evaluate(std::span<const Batch> batches, const SeeLogits& see);
  /// Sums over the ranks whose batches form a step.
  std::vector<double> sum(std::vector<double> values, const char* what);
  /// Sums over the stages.
  std::vector<double> sum_over_stages(std::vector<double> values, const char* what);
};

}  // namespace modular
