// State of a ParallelModel: what parallelize() makes of a model, and the functions that run it.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/model/dp.h"
#include "runtime/parallel/fsdp/unit_parameters.h"
#include "runtime/parallel/memory/saved_tensors.h"
#include "runtime/parallel/objectives/sentence_objective.h"
#include "runtime/parallel/parallel_model.h"
#include "runtime/parallel/parameters/parameter_table.h"
#include "runtime/parallel/pipeline/pipeline.h"
#include "runtime/parallel/step/feature.h"
#include "runtime/parallel/tensor/sequence_parallel.h"
#include "runtime/parallel/tensor/tensor_parallel.h"
#include "runtime/parallel/thread_replicas.h"

namespace modular {

struct ParallelModel::State {
  const Entry& entry;
  Mesh& mesh;
  ParallelOptions options;

  // The model, and this rank's part of it.
  Model model;
  ParameterTable table;
  std::vector<UnitParameters> units;  // parallel to table.units
  std::vector<ShardedParameter> slices;
  std::vector<ShardedParameter> buffers;
  std::vector<std::pair<size_t, size_t>> layout_indices;  // parallel to slices: unit, and index in its layout

  // The strategies. A null member is one that the mesh and the options do not ask for.
  ProcessGroup rows;    // ranks whose batches form a step
  ProcessGroup losses;  // ranks whose losses are terms of the step's loss
  std::unique_ptr<dp::DataParallel> rows_of_ranks;
  std::unique_ptr<tp::TensorParallel> tensor_parallel;
  std::unique_ptr<Pipeline> pipeline;
  std::set<int64_t> stages_with_root;  // stages of this rank that use parameters of the root unit
  std::unique_ptr<SavedTensors> saved;
  std::unique_ptr<ThreadReplicas> replicas;
  std::vector<std::unique_ptr<Feature>> features;  // in the order in which parallelize() applied them
  SentenceObjective* sentences = nullptr;          // one of the features, or null
  SequenceShares* sequence = nullptr;              // one of the features, or null
  ContextRanks* context = nullptr;                 // one of the features, or null
  Parallel in_forwards, in_training;               // interfaces that the model is bound to, without and with a backward

  State(const Entry& entry, Model model, Mesh& mesh, const ParallelOptions& options)
      : entry(entry), mesh(mesh), options(options), model(std::move(model)) {}

  // Steps of parallelize().
  /// Cuts the model into pipeline stages.
  void split_into_stages(const AnyConfig& config);
  /// Fills the table with the parameters of this rank's stages.
  void list_parameters(const AnyConfig& config);
  /// Shards every unit's parameters over the data-parallel ranks and allocates this rank's part of them.
  void shard_parameters();
  void describe_slices();
  void allocate_buffers();
  void initialize(uint64_t seed);
  /// Returns the slices that make up `slice` of a parameter on this rank. Among replicas and stages that hold a slice,
  /// the first owns it.
  std::vector<ParameterSlice> owned_slices(const ModelParameter& parameter, const Slice& slice) const;
  /// Appends a feature, built from `arguments`, and returns it.
  template <class Kind, class... Arguments>
  Kind& add(Arguments&&... arguments) {
    features.push_back(std::make_unique<Kind>(std::forward<Arguments>(arguments)...));
    return static_cast<Kind&>(*features.back());
  }

  /// Binds the model to an interface in all forwards.
  template <class Interface>
  void bind(Interface* Parallel::* member, std::type_identity_t<Interface>* to) {
    in_forwards.*member = in_training.*member = to;
  }

  const ParameterPlacement& placement(size_t slice) const {
    return units[layout_indices[slice].first].layout().parameters[layout_indices[slice].second];
  }
  /// Whether the model computes with a bfloat16 copy of the parameters that exists only on this rank.
  bool has_local_compute_copy() const {
    return options.bf16 && mesh.shape().ranks() == 1 && !options.offload.optimizer && !options.offload.parameters;
  }
  /// Whether a parameter's gradient is a sum over ranks.
  bool reduces_gradients() const { return mesh.size(kShardAxes) > 1 || mesh.size(kReplicateAxes) > 1; }
  /// Whether the gradients of a step stay where autograd accumulates them: there is nothing to reduce, and float32 sums
  /// or the single summand suffice.
  bool has_gradients_in_place(size_t micro_batches) const {
    return (!reduces_gradients() && !options.bf16 && !options.offload.optimizer) ||
           (has_local_compute_copy() && micro_batches == 1 && !replicas);
  }

  /// The batches on this rank's device; with context parallelism, its positions of them. Forwards take these batches
  /// until the next call.
  std::vector<Batch> inputs(std::span<const Batch> batches);
  /// Whether this rank's losses and counts are terms of the step's. Of ranks that compute the same, one counts.
  bool counts_loss() const { return mesh.coordinate(Axis::cp) == 0 || !entry.plan->full_loss; }
  /// Whether this rank's logits are those of its positions.
  bool has_cut_logits() const { return context && !entry.plan->full_loss; }

  /// Publishes new values of the slices to the compute copies.
  void parameters_changed();

  // Phases of a step.
  void clear_gradients(size_t micro_batches);
  Outputs forward(const Batch& batch);
  /// Runs `autograd`, which accumulates parameter gradients.
  void backward(const std::function<void()>& autograd, const StageBackward& kind);
  void finish_gradients();

  PipelineSums train(std::span<const Batch> micro_batches, double scale);
  PipelineSums evaluate(std::span<const Batch> batches, const SeeLogits& see);
  StageFunctions stage_functions(size_t micro_batches);
  void end_forwards();

  /// Sums over the ranks of a group, in host memory.
  std::vector<double> sum(const ProcessGroup& group, std::vector<double> values, const char* what);
  /// Sums over the stages.
  std::vector<double> sum_over_stages(std::vector<double> values, const char* what);
};

}  // namespace modular
