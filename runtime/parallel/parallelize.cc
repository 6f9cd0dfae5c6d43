// Construction of a ParallelModel: the strategies, in the order in which they apply.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "runtime/mesh/collectives.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/fsdp/unit_runner.h"
#include "runtime/parallel/memory/host_transfers.h"
#include "runtime/parallel/objectives/class_sampler.h"
#include "runtime/parallel/objectives/router_balance.h"
#include "runtime/parallel/parallel_model_state.h"
#include "runtime/parallel/parameters/config_integers.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/uneven_splits.h"
#include "runtime/parallel/random/dropout_rng.h"
#include "runtime/parallel/random/initialization.h"

namespace modular {
namespace {

/// Counts the targets of a task whose samples have losses of their own.
class TargetCount final : public Feature {
 public:
  explicit TargetCount(const Task& task) : task_(task) {}
  void begin_step(TrainingStep& step) override {
    int64_t targets = 0;
    for (const Batch& batch : step.micro_batches)
      if (batch.labels.defined()) targets += count_targets(task_.targets(batch.labels)).item<int64_t>();
    step.counts.front() = static_cast<double>(targets);
  }

 private:
  const Task& task_;
};

/// Adds up the gradients of each backward, if no UnitRunner does.
class AccumulatedGradients final : public Feature {
 public:
  explicit AccumulatedGradients(std::vector<UnitParameters>& units) : units_(units) {}
  void after_backward(const StageBackward& /*backward*/) override {
    for (UnitParameters& unit : units_) unit.start_reduction();
  }

 private:
  std::vector<UnitParameters>& units_;
};

/// Sums the gradients of parameters that several pipeline stages use.
class StageGradients final : public Feature {
 public:
  StageGradients(Mesh& mesh, Pipeline& pipeline, const ParameterTable& table) : mesh_(mesh), pipeline_(pipeline) {
    size_t slice = 0;
    for (const ModelParameter& parameter : table.parameters) {
      if (!parameter.held) continue;
      if (parameter.trainable && parameter.shared_between_stages) in_both_ends_.push_back(slice);
      if (parameter.trainable && parameter.in_every_stage) in_every_stage_.push_back(slice);
      ++slice;
    }
    if (!in_both_ends_.empty()) pipeline_.connect_ends();
  }

  void reduce_gradients(std::vector<ShardedParameter>& slices) override {
    for (const size_t slice : in_every_stage_) {
      slices[slice].grad = slices[slice].grad.contiguous();
      if (slices[slice].grad.numel() == 0) continue;
      all_reduce(mesh_.group({Axis::pp}), slices[slice].grad, "the gradient of " + slices[slice].name).wait();
    }
    if (in_both_ends_.empty()) return;
    std::vector<at::Tensor> shared;
    for (const size_t slice : in_both_ends_) shared.push_back(slices[slice].grad);
    pipeline_.sum_between_ends(shared);
  }

 private:
  Mesh& mesh_;
  Pipeline& pipeline_;
  std::vector<size_t> in_both_ends_;    // slices of tied parameters, which the first and the last stage use
  std::vector<size_t> in_every_stage_;  // slices of parameters that all stages use
};

/// Moves the reduced gradients to host memory, for an optimizer that updates on the CPU.
class HostGradients final : public Feature {
 public:
  HostGradients(std::vector<UnitParameters>& units, const at::Device& device) : units_(units), device_(device) {}

  void reduce_gradients(std::vector<ShardedParameter>& slices) override {
    gradients_.resize(slices.size());
    for (size_t i = 0; i < slices.size(); ++i) {
      if (!slices[i].grad.defined()) continue;
      if (!gradients_[i].defined()) gradients_[i] = empty_on_host(slices[i].grad.sizes(), at::kFloat, device_);
      slices[i].grad = gradients_[i].copy_(slices[i].grad, /*non_blocking=*/true);
    }
    wait_for_copies(device_);
    for (UnitParameters& unit : units_) unit.begin_step();  // frees the gradients on the device
  }

 private:
  std::vector<UnitParameters>& units_;
  at::Device device_;
  std::vector<at::Tensor> gradients_;  // parallel to slices; reused in every step
};

}  // namespace

void ParallelModel::State::split_into_stages(const AnyConfig& config) {
  const std::vector<int64_t> sizes = stack_sizes(*model.module, *entry.plan);
  const ParameterTable full_table = parameter_table(*model.module, *entry.plan, config, /*stages=*/{});
  PipelineOptions with_cuts = options.pipeline;
  with_cuts.cuts = stage_cuts(with_cuts, mesh.size(Axis::pp), layer_costs(full_table, *entry.plan, sizes));
  pipeline = std::make_unique<Pipeline>(mesh, with_cuts, sizes);
  bind(&Parallel::stage, pipeline.get());
}

void ParallelModel::State::list_parameters(const AnyConfig& config) {
  const std::vector<StageOnRank> stages = pipeline ? pipeline->own_stages() : std::vector<StageOnRank>();
  std::vector<const StageOnRank*> own;
  for (const StageOnRank& stage : stages) {
    own.push_back(&stage);
    const auto in_root = [](const ModelParameter& parameter) { return parameter.held && parameter.unit == 0; };
    const ParameterTable stage_table = parameter_table(*model.module, *entry.plan, config, {&stage}, options.units);
    if (std::ranges::any_of(stage_table.parameters, in_root)) stages_with_root.insert(stage.number());
  }
  table = parameter_table(*model.module, *entry.plan, config, own, options.units);
}

void ParallelModel::State::shard_parameters() {
  const DataParallelGroups groups = data_parallel_groups(mesh);
  const int64_t tp = mesh.size(Axis::tp), tp_rank = mesh.coordinate(Axis::tp);
  std::vector<UnitLayout> layouts(table.units.size(), UnitLayout(groups.shard_size));
  for (ModelParameter& parameter : table.parameters) {
    if (!parameter.held) continue;
    std::vector<int64_t> shape = local_shape(parameter, tp, tp_rank);
    layout_indices.emplace_back(parameter.unit, layouts[parameter.unit].parameters.size());
    layouts[parameter.unit].add(parameter.tensor, std::move(shape));
  }
  const auto type = options.bf16 ? at::kBFloat16 : at::kFloat;
  for (size_t unit = 0; unit < layouts.size(); ++unit) {
    const std::string name = unit == 0 ? std::string(entry.architecture) : table.units[unit].name;
    units.emplace_back(name, std::move(layouts[unit]), groups, type, mesh.device(), options.offload);
  }
}

std::vector<ParameterSlice> ParallelModel::State::owned_slices(const ModelParameter& parameter,
                                                               const Slice& slice) const {
  auto own = get_slices_on_rank(parameter, mesh.size(Axis::tp), mesh.coordinate(Axis::tp), slice);
  bool first = mesh.coordinate(kReplicateAxes) == 0;
  if (parameter.shared_between_stages || parameter.in_every_stage)
    first = first && mesh.coordinate(Axis::pp) == (pipeline ? pipeline->first_rank() : 0);
  for (ParameterSlice& part : own) part.owner = part.owner && first;
  return own;
}

void ParallelModel::State::describe_slices() {
  slices.reserve(layout_indices.size());
  for (ModelParameter& parameter : table.parameters) {
    if (!parameter.held) continue;
    const size_t index = slices.size();
    const ParameterPlacement& layout = placement(index);
    ShardedParameter& slice = slices.emplace_back();
    slice.name = parameter.name;
    slice.names = parameter.names;
    slice.global_shape = parameter.global_shape;
    slice.is_rate = parameter.is_rate;
    slice.partial_in_sequence = parameter.partial_in_sequence;
    slice.layer_matrix = parameter.layer_matrix;
    slice.local = units[parameter.unit].local(layout);
    if (has_local_compute_copy()) slice.rounded = layout.registered;
    const auto [first_row, rows] = units[parameter.unit].layout().get_rows(layout, mesh.coordinate(kShardAxes));
    slice.slices = owned_slices(parameter, {layout.dim, first_row, rows});
    slice.trainable = parameter.trainable;
  }
}

/// Allocates the buffers, which stay float32 even with bfloat16 parameters.
void ParallelModel::State::allocate_buffers() {
  const int64_t tp = mesh.size(Axis::tp), tp_rank = mesh.coordinate(Axis::tp);
  for (ModelParameter& buffer : table.buffers) {
    if (!buffer.held) continue;
    const std::vector<int64_t> shape = local_shape(buffer, tp, tp_rank);
    make_real(buffer.tensor, at::empty(shape, buffer.tensor.options().device(mesh.device())));
    ShardedParameter& slice = buffers.emplace_back();
    slice.name = buffer.name;
    slice.global_shape = buffer.global_shape;
    slice.local = buffer.tensor;
    slice.slices = owned_slices(buffer, {.size = shape.empty() ? 1 : shape[0]});
    for (ParameterSlice& part : slice.slices) part.owner = part.owner && mesh.coordinate(kShardAxes) == 0;
  }
}

void ParallelModel::State::initialize(uint64_t seed) {
  SliceInitializer initializer(seed);
  for (size_t i = 0; i < slices.size(); ++i) initializer.add(placement(i).registered, slices[i]);
  for (ShardedParameter& buffer : buffers) initializer.add(buffer.local, buffer);
  initializer.run(*model.module);
  parameters_changed();
}

std::unique_ptr<ParallelModel::State> ParallelModel::parallelize(Model model, const Entry& entry,
                                                                 const AnyConfig& config, Mesh& mesh,
                                                                 const ParallelOptions& options, uint64_t seed) {
  auto made = std::make_unique<State>(entry, std::move(model), mesh, options);
  State& state = *made;
  nn::Module& root = *state.model.module;
  const Task& task = *find_task(entry.task);
  root.eval();  // StepDropoutRng implements dropout, not libtorch

  // Pipeline parallelism, first: all that follows covers only the layers of this rank's stages.
  if (mesh.size(Axis::pp) > 1) state.split_into_stages(config);
  // Data parallelism: the ranks whose batches form a step, and losses over all their rows.
  state.rows = mesh.group(kRowAxes);
  state.losses = mesh.group(kLossAxes);
  if (state.rows) state.rows_of_ranks = make_data_parallel(state.rows);
  state.bind(&Parallel::dp, state.rows_of_ranks.get());
  // Context parallelism: this rank's positions of the sequences.
  if (mesh.size(Axis::cp) > 1) {
    const auto integers = config_integers(config);
    const auto padding = integers.find("pad_token_id");
    state.context = &state.add<ContextRanks>(mesh.group({Axis::cp}, "positions"), options.context.attention,
                                             find_layout(entry, options.context.layout),
                                             ContextData{.token_labels = task.labels != Task::Labels::each_row,
                                                         .padding_id = padding == integers.end() ? 0 : padding->second,
                                                         .causal = task.targets == next_tokens});
  }
  state.bind(&Parallel::context, state.context);
  // Tensor parallelism: splits of each parameter, and sums over ranks that hold the same KV heads.
  state.list_parameters(config);
  describe_uneven_splits(state.table, entry, config, mesh.size(Axis::tp));
  const SharedSlices& shared_slices = state.add<SharedSlices>(state.table, mesh);
  if (mesh.size(Axis::tp) > 1)
    state.tensor_parallel = make_tensor_parallel(mesh.group({Axis::tp}), shared_slices.groups(),
                                                 uneven_sizes(state.table, mesh.size(Axis::tp)));
  state.bind(&Parallel::tp, state.tensor_parallel.get());
  // Sequence parallelism: each step decides whether it is bound.
  if (mesh.size(Axis::tp) > 1 && !entry.plan->sequence.empty() && options.sequence.value_or(true))
    state.sequence = &state.add<SequenceShares>(mesh.group({Axis::tp}), /*two_stacks=*/entry.plan->sequence.size() > 1,
                                                state.context);

  // Frozen parameters and adapters, before anything allocates gradients.
  freeze(state.table.parameters, options.frozen, options.trained);
  // Float8 layers.
  if (options.bf16) multiply_in_float8(root, options.float8);
  // Dropout, by sample: the same on every mesh.
  if (options.dropout) state.in_training.dropout = &state.add<StepDropoutRng>(root, seed);
  // Objectives: classes of a sampled softmax, sentences of a step, routers of experts.
  if (options.sampled_softmax.samples > 0) {
    const int64_t classes = config_integers(config).at(std::string(task.label_count));
    state.in_training.sampled =
        &state.add<ClassSampler>(options.sampled_softmax, classes, seed, mesh.device()).sampled();
  }
  if (task.texts == kAnyTexts) {
    state.sentences = &state.add<SentenceObjective>(options.sentences, state.rows);
    state.bind(&Parallel::sentences, state.sentences);
  } else {
    state.add<TargetCount>(task);
  }
  if (const int64_t experts = expert_count(state.table.parameters); experts > 0 && options.dp_threads == 1)
    state.in_training.routing = &state.add<RouterBalance>(options.router, experts, mesh);

  // FSDP and HSDP: this rank's shards, in memory from here on.
  state.shard_parameters();
  state.describe_slices();
  // Gradients of parameters that several stages use.
  if (state.pipeline) state.add<StageGradients>(mesh, *state.pipeline, state.table);
  state.allocate_buffers();
  // Memory: recomputation and offloading of activations, and positions that the backward gathers again.
  const bool saves_by_unit = !options.recompute.operations.empty() || options.offload.activations;
  if (saves_by_unit || state.sequence)
    state.saved =
        std::make_unique<SavedTensors>(options.recompute, options.offload, mesh.device(), held_tensors(state.table));
  // Units, for each strategy that acts around a unit's forward and backward.
  if (state.reduces_gradients() || options.recompute || options.offload.parameters || saves_by_unit)
    state.bind(&Parallel::units, &state.add<UnitRunner>(state.table.units, state.units, state.features,
                                                        UnitOptions{.reshard_after_forward = options.zero_stage == 3,
                                                                    .reduce_once = options.zero_stage == 1,
                                                                    .prefetch = static_cast<size_t>(options.prefetch),
                                                                    .recompute = options.recompute,
                                                                    .saved = state.saved.get()},
                                                        mesh.device()));
  else
    state.add<AccumulatedGradients>(state.units);
  // Offloading of the optimizer, last: it takes gradients that are complete.
  if (options.offload.optimizer) state.add<HostGradients>(state.units, mesh.device());

  // Initial values, and replicas on threads, which copy them.
  if (options.initialize) state.initialize(seed);
  if (options.dp_threads > 1)
    state.replicas = std::make_unique<ThreadReplicas>(entry, config, state.model, options.dp_threads,
                                                      options.dropout ? std::optional(seed) : std::nullopt);
  return made;
}

ParallelModel::ParallelModel(const Entry& entry, const AnyConfig& config, Mesh& mesh, const ParallelOptions& options,
                             uint64_t seed) {
  if (const std::string reason = error(entry, config, mesh.shape(), options.pipeline); !reason.empty())
    throw std::runtime_error(reason);
  if (const auto [key, reason] = memory_error(entry, config, options.units, options.recompute, options.offload);
      !reason.empty())
    throw std::runtime_error(reason);
  state_ = parallelize(build_on_meta(entry, config), entry, config, mesh, options, seed);
}

}  // namespace modular
