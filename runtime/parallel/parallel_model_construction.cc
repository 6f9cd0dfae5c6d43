// Placement of a model on the ranks: which parameters this rank holds, their layout, and the objects that run them.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "runtime/parallel/data_parallel_rows.h"
#include "runtime/parallel/parallel_model_state.h"
#include "runtime/parallel/parameters/config_integers.h"
#include "runtime/parallel/parameters/float8_layers.h"
#include "runtime/parallel/random/initialization.h"

namespace modular {

/// Shards every unit's parameters and allocates this rank's part of them.
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
  bool first = mesh.coordinate(Axis::dp_replicate) == 0;
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
    slice.layer_matrix = parameter.layer_matrix;
    slice.local = units[parameter.unit].local(layout);
    if (has_local_compute_copy()) slice.rounded = layout.registered;
    const auto [first_row, rows] = units[parameter.unit].layout().get_rows(layout, mesh.coordinate(Axis::dp_shard));
    slice.slices = owned_slices(parameter, {layout.dim, first_row, rows});
    slice.trainable = parameter.trainable;
    if (parameter.shared_between_stages && slice.trainable) shared_between_stages.push_back(index);
    if (parameter.in_every_stage && slice.trainable) in_every_stage.push_back(index);
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
    for (ParameterSlice& part : slice.slices) part.owner = part.owner && mesh.coordinate(Axis::dp_shard) == 0;
  }
}

void ParallelModel::State::choose_reduction() {
  const bool sharded = mesh.size(Axis::dp_shard) > 1, replicated = mesh.size(Axis::dp_replicate) > 1;
  in_place = !sharded && !replicated && !options.bf16 && !options.offload.optimizer;
  if (!options.recompute.operations.empty() || options.offload.activations)
    saved.emplace(options.recompute, options.offload, mesh.device(), held_tensors(table));
  if (sharded || replicated || options.recompute || options.offload.parameters || saved)
    runner.emplace(table.units, units,
                   UnitOptions{.reshard_after_forward = options.zero_stage == 3,
                               .reduce_once = options.zero_stage == 1,
                               .prefetch = static_cast<size_t>(options.prefetch),
                               .recompute = options.recompute,
                               .reduce = !in_place,
                               .dropout = dropout ? &*dropout : nullptr,
                               .routers = routers ? &*routers : nullptr,
                               .saved = saved ? &*saved : nullptr},
                   mesh.device());
}

ParallelModel::ParallelModel(const Entry& entry, const AnyConfig& config, Mesh& mesh, const ParallelOptions& options,
                             uint64_t seed) {
  if (const std::string reason = error(entry, config, mesh.shape(), options.pipeline); !reason.empty())
    throw std::runtime_error(reason);
  if (const auto [key, reason] = memory_error(entry, config, options.units, options.recompute, options.offload);
      !reason.empty())
    throw std::runtime_error(reason);
  state_ = std::make_unique<State>(entry, config, mesh, options);
  State& state = *state_;
  if (mesh.size(Axis::pp) > 1) {
    const std::vector<int64_t> sizes = stack_sizes(*state.model.module, *entry.plan);
    const ParameterTable full_table = parameter_table(*state.model.module, *entry.plan, config, /*stages=*/{});
    PipelineOptions pipeline = options.pipeline;
    pipeline.cuts = stage_cuts(pipeline, mesh.size(Axis::pp), layer_costs(full_table, *entry.plan, sizes));
    state.pipeline = std::make_unique<Pipeline>(mesh, pipeline, sizes);
  }
  state.data_parallel = mesh.group({Axis::dp_replicate, Axis::dp_shard});
  if (state.data_parallel) state.rows_of_ranks = make_data_parallel(state.data_parallel);
  if (find_task(entry.task)->texts == kAnyTexts) state.sentences.emplace(options.sentences, state.data_parallel);
  const std::vector<StageOnRank> stages = state.pipeline ? state.pipeline->own_stages() : std::vector<StageOnRank>();
  std::vector<const StageOnRank*> own;
  for (const StageOnRank& stage : stages) {
    own.push_back(&stage);
    const auto in_root = [](const ModelParameter& parameter) { return parameter.held && parameter.unit == 0; };
    const ParameterTable stage_table =
        parameter_table(*state.model.module, *entry.plan, config, {&stage}, options.units);
    if (std::ranges::any_of(stage_table.parameters, in_root)) state.stages_with_root.insert(stage.number());
  }
  state.table = parameter_table(*state.model.module, *entry.plan, config, own, options.units);
  describe_uneven_splits(state.table, entry, config, mesh.size(Axis::tp));
  state.shared_slices = SharedSlices(state.table, mesh);
  if (mesh.size(Axis::tp) > 1)
    state.tensor_parallel = make_tensor_parallel(mesh.group({Axis::tp}), state.shared_slices.groups(),
                                                 uneven_sizes(state.table, mesh.size(Axis::tp)));
  freeze(state.table.parameters, options.frozen, options.trained);
  if (options.bf16) multiply_in_float8(*state.model.module, options.float8);
  state.model.module->eval();  // StepDropoutRng implements dropout, not libtorch
  if (options.dropout) state.dropout.emplace(*state.model.module, seed);
  if (options.sampled_softmax.samples > 0) {
    const int64_t classes = config_integers(config).at(std::string(find_task(entry.task)->label_count));
    state.sampler.emplace(options.sampled_softmax, classes, seed, mesh.device());
  }
  if (const int64_t experts = expert_count(state.table.parameters); experts > 0 && options.dp_threads == 1)
    state.routers.emplace(options.router, experts, mesh);
  state.shard_parameters();
  state.describe_slices();
  if (!state.shared_between_stages.empty()) state.pipeline->connect_ends();
  state.allocate_buffers();
  state.choose_reduction();

  if (options.initialize) {
    SliceInitializer initializer(seed);
    for (size_t i = 0; i < state.slices.size(); ++i) initializer.add(state.placement(i).registered, state.slices[i]);
    for (ShardedParameter& buffer : state.buffers) initializer.add(buffer.local, buffer);
    initializer.run(*state.model.module);
    parameters_changed();
  }
  if (options.dp_threads > 1)
    state.replicas.emplace(entry, config, state.model, options.dp_threads,
                           options.dropout ? std::optional(seed) : std::nullopt);
}

}  // namespace modular
