#include "runtime/parallel/parallel_model.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "runtime/mesh/collectives.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/data_parallel_rows.h"
#include "runtime/parallel/dropout_draws.h"
#include "runtime/parallel/host_gradients.h"
#include "runtime/parallel/initialization.h"
#include "runtime/parallel/known_values.h"
#include "runtime/parallel/meta_construction.h"
#include "runtime/parallel/parameter_table.h"
#include "runtime/parallel/pipeline.h"
#include "runtime/parallel/recomputed_operations.h"
#include "runtime/parallel/router_balance.h"
#include "runtime/parallel/running_sum.h"
#include "runtime/parallel/saved_tensors.h"
#include "runtime/parallel/tensor_parallel.h"
#include "runtime/parallel/thread_replicas.h"
#include "runtime/parallel/uneven_splits.h"
#include "runtime/parallel/unit_parameters.h"
#include "runtime/parallel/unit_runner.h"
#include "runtime/parallel/unit_scopes.h"

namespace modular {
namespace {

/// Targets of a batch before its forward has run; equal to the Outputs::token_count that the forward returns.
int64_t targets_of(const Entry& entry, const Batch& batch) {
  if (!batch.labels.defined()) return 0;
  return count_targets(find_task(entry.task)->targets(batch.labels)).item<int64_t>();
}

/// Positions that are not padding.
int64_t positions_of(const Batch& batch) {
  return batch.attention_mask.defined() ? batch.attention_mask.sum().item<int64_t>() : batch.leading().numel();
}

}  // namespace

struct ParallelModel::State {
  const Entry& entry;
  Mesh& mesh;
  ParallelOptions options;
  Model model;
  ParameterTable table;
  std::vector<UnitParameters> units;  // beside table.units
  std::vector<ShardedParameter> boxes;
  std::vector<ShardedParameter> buffers;
  std::vector<std::pair<size_t, size_t>> places;  // beside boxes: unit, and number in its layout
  std::vector<size_t> shared_between_stages;      // boxes whose gradient is a sum over the first and the last stage
  std::vector<size_t> in_every_stage;             // boxes whose gradient is a sum over all stages
  std::set<int64_t> stages_with_root;             // of this rank's: those that use parameters of the root unit
  // Whether the modules compute with the boxes themselves, so that the backward leaves gradients where they belong.
  bool in_place = false;
  std::optional<SavedTensors> saved;
  std::optional<UnitRunner> runner;
  std::unique_ptr<tp::TensorParallel> tensor_parallel;
  SharedSlices shared_slices;
  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<dp::DataParallel> rows_of_ranks;
  ProcessGroup data_parallel;  // the ranks whose batches make up a step's
  std::optional<DropoutDraws> dropout;
  std::optional<RouterBalance> routers;
  HostGradients host_gradients;  // where the optimizer is offloaded
  std::optional<ThreadReplicas> replicas;

  State(const Entry& entry, const AnyConfig& config, Mesh& mesh, const ParallelOptions& options)
      : entry(entry), mesh(mesh), options(options), model(build_on_meta(entry, config)) {}

  /// The boxes of this rank's `slice` of a parameter. Of replicas and stages that hold it, the first counts it.
  std::vector<ParameterBox> owned_boxes(const ModelParameter& parameter, const Slice& slice) const;
  const ParameterPlacement& placement(size_t box) const {
    return units[places[box].first].layout().parameters[places[box].second];
  }
  Parallel parallel() {
    return {.units = runner ? &*runner : nullptr,
            .tp = tensor_parallel.get(),
            .stage = pipeline.get(),
            .dp = rows_of_ranks.get()};
  }

  void lay_out();
  void describe_boxes();
  void lay_out_buffers();
  void choose_reduction();

  void begin_step();
  Outputs forward(const Batch& batch);
  /// Runs `autograd`, which leaves gradients of parameters. The others as UnitRunner has them.
  void backward(const std::function<void()>& autograd, bool last_of_stage, bool last_of_step, bool with_root);
  void end_step();
  StageFunctions stage_functions(size_t micro_batches);
  /// What routers choose in a step, before its first backward needs it.
  void count_choices(std::span<const Batch> micro_batches);
  PipelineSums train(std::span<const Batch> micro_batches, double scale);
  PipelineSums evaluate(std::span<const Batch> batches);
  /// Sums over the ranks whose batches make up a step.
  std::vector<double> sum(std::vector<double> values, const char* what);
  /// Sums over the stages.
  std::vector<double> sum_over_stages(std::vector<double> values, const char* what);
};

/// Divides every unit's parameters and allocates this rank's part of them.
void ParallelModel::State::lay_out() {
  const DataParallelGroups groups = data_parallel_groups(mesh);
  const int64_t tp = mesh.size(Axis::tp), tp_rank = mesh.coordinate(Axis::tp);
  std::vector<UnitLayout> layouts(table.units.size(), UnitLayout(groups.shard_size));
  for (ModelParameter& parameter : table.parameters) {
    if (!parameter.held) continue;
    std::vector<int64_t> shape = local_shape(parameter, tp, tp_rank);
    places.emplace_back(parameter.unit, layouts[parameter.unit].parameters.size());
    layouts[parameter.unit].add(parameter.tensor, std::move(shape));
  }
  const auto type = options.bf16 ? at::kBFloat16 : at::kFloat;
  for (size_t unit = 0; unit < layouts.size(); ++unit) {
    const std::string name = unit == 0 ? std::string(entry.architecture) : table.units[unit].name;
    units.emplace_back(name, std::move(layouts[unit]), groups, type, mesh.device(), options.offload);
  }
}

std::vector<ParameterBox> ParallelModel::State::owned_boxes(const ModelParameter& parameter, const Slice& slice) const {
  auto own = boxes_of_rank(parameter, mesh.size(Axis::tp), mesh.coordinate(Axis::tp), slice);
  bool first = mesh.coordinate(Axis::dp_replicate) == 0;
  if (parameter.shared_between_stages || parameter.in_every_stage)
    first = first && mesh.coordinate(Axis::pp) == (pipeline ? pipeline->first_rank() : 0);
  for (ParameterBox& box : own) box.owner = box.owner && first;
  return own;
}

void ParallelModel::State::describe_boxes() {
  boxes.reserve(places.size());
  for (ModelParameter& parameter : table.parameters) {
    if (!parameter.held) continue;
    const size_t index = boxes.size();
    const ParameterPlacement& place = placement(index);
    ShardedParameter& box = boxes.emplace_back();
    box.name = parameter.name;
    box.names = parameter.names;
    box.global_shape = parameter.global_shape;
    box.layer_matrix = parameter.layer_matrix;
    box.local = units[parameter.unit].local(place);
    const auto [first_row, rows] = units[parameter.unit].layout().rows_of(place, mesh.coordinate(Axis::dp_shard));
    box.boxes = owned_boxes(parameter, {place.dim, first_row, rows});
    box.trainable = parameter.trainable;
    if (parameter.shared_between_stages && box.trainable) shared_between_stages.push_back(index);
    if (parameter.in_every_stage && box.trainable) in_every_stage.push_back(index);
  }
}

/// Allocates the buffers, which stay in float32 with bfloat16 too.
void ParallelModel::State::lay_out_buffers() {
  const int64_t tp = mesh.size(Axis::tp), tp_rank = mesh.coordinate(Axis::tp);
  for (ModelParameter& buffer : table.buffers) {
    if (!buffer.held) continue;
    const std::vector<int64_t> shape = local_shape(buffer, tp, tp_rank);
    make_real(buffer.tensor, at::empty(shape, buffer.tensor.options().device(mesh.device())));
    ShardedParameter& box = buffers.emplace_back();
    box.name = buffer.name;
    box.global_shape = buffer.global_shape;
    box.local = buffer.tensor;
    box.boxes = owned_boxes(buffer, {.size = shape.empty() ? 1 : shape[0]});
    for (ParameterBox& part : box.boxes) part.owner = part.owner && mesh.coordinate(Axis::dp_shard) == 0;
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
  if (const std::string reason = refusal(entry, config, mesh.shape(), options.pipeline); !reason.empty())
    throw std::runtime_error(reason);
  if (const auto [key, reason] = memory_refusal(entry, config, options.units, options.recompute, options.offload);
      !reason.empty())
    throw std::runtime_error(reason);
  state_ = std::make_unique<State>(entry, config, mesh, options);
  State& state = *state_;
  if (mesh.size(Axis::pp) > 1) {
    const std::vector<int64_t> sizes = tower_sizes(*state.model.module, *entry.plan);
    const ParameterTable whole = parameter_table(*state.model.module, *entry.plan, config, /*stages=*/{});
    PipelineOptions pipeline = options.pipeline;
    pipeline.cuts = stage_cuts(pipeline, mesh.size(Axis::pp), layer_costs(whole, *entry.plan, sizes));
    state.pipeline = std::make_unique<Pipeline>(mesh, pipeline, sizes);
  }
  state.data_parallel = mesh.group({Axis::dp_replicate, Axis::dp_shard});
  if (state.data_parallel) state.rows_of_ranks = make_data_parallel(state.data_parallel);
  const std::vector<PlacedStage> stages = state.pipeline ? state.pipeline->own_stages() : std::vector<PlacedStage>();
  std::vector<const PlacedStage*> own;
  for (const PlacedStage& stage : stages) {
    own.push_back(&stage);
    const auto of_root = [](const ModelParameter& parameter) { return parameter.held && parameter.unit == 0; };
    const ParameterTable of_stage = parameter_table(*state.model.module, *entry.plan, config, {&stage}, options.units);
    if (std::ranges::any_of(of_stage.parameters, of_root)) state.stages_with_root.insert(stage.number());
  }
  state.table = parameter_table(*state.model.module, *entry.plan, config, own, options.units);
  describe_uneven_splits(state.table, entry, config, mesh.size(Axis::tp));
  state.shared_slices = SharedSlices(state.table, mesh);
  if (mesh.size(Axis::tp) > 1)
    state.tensor_parallel = make_tensor_parallel(mesh.group({Axis::tp}), state.shared_slices.groups(),
                                                 uneven_sizes(state.table, mesh.size(Axis::tp)));
  freeze(state.table.parameters, options.frozen);
  state.model.module->eval();  // what dropout drops is not libtorch's to draw
  if (options.dropout) state.dropout.emplace(*state.model.module, seed);
  if (const int64_t experts = expert_count(state.table.parameters); experts > 0 && options.dp_threads == 1)
    state.routers.emplace(options.router, experts, mesh);
  state.lay_out();
  state.describe_boxes();
  state.lay_out_buffers();
  state.choose_reduction();

  if (options.initialize) {
    BoxInitializer initializer(seed);
    for (size_t i = 0; i < state.boxes.size(); ++i) initializer.add(state.placement(i).registered, state.boxes[i]);
    for (ShardedParameter& buffer : state.buffers) initializer.add(buffer.local, buffer);
    initializer.run(*state.model.module);
    parameters_changed();
  }
  if (options.dp_threads > 1)
    state.replicas.emplace(entry, config, state.model, options.dp_threads,
                           options.dropout ? std::optional(seed) : std::nullopt);
}

ParallelModel::~ParallelModel() = default;

std::vector<ShardedParameter>& ParallelModel::parameters() { return state_->boxes; }
std::vector<ShardedParameter>& ParallelModel::buffers() { return state_->buffers; }
Mesh& ParallelModel::mesh() { return state_->mesh; }

void ParallelModel::parameters_changed() {
  at::NoGradGuard no_grad;
  for (UnitParameters& unit : state_->units) unit.refresh();
}

void ParallelModel::State::begin_step() {
  for (ShardedParameter& box : boxes) box.grad.reset();
  for (UnitParameters& unit : units) unit.begin_step();
  if (runner) runner->begin_step();
}

Outputs ParallelModel::State::forward(const Batch& batch) {
  RECORD_USER_SCOPE("forward");
  if (dropout) dropout->begin_forward(batch);
  if (routers) routers->begin_forward(batch, pipeline ? pipeline->running() : 0);
  SavedTensors::Frame frame(saved ? &*saved : nullptr, {});
  Outputs outputs = model.forward(batch);
  frame.finish(/*offload=*/false);
  return outputs;
}

void ParallelModel::State::backward(const std::function<void()>& autograd, bool last_of_stage, bool last_of_step,
                                    bool with_root) {
  RECORD_USER_SCOPE("backward");
  if (runner) runner->begin_backward(last_of_stage, last_of_step);
  autograd();
  if (runner) {
    runner->end_backward(with_root);
  } else if (!in_place) {
    for (UnitParameters& unit : units) unit.start_reduction();
  }
}

void ParallelModel::State::end_step() {
  if (runner) runner->end_step();
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (!boxes[i].trainable) continue;
    if (in_place) {
      boxes[i].grad = placement(i).registered.grad();
      if (!boxes[i].grad.defined()) boxes[i].grad = at::zeros_like(boxes[i].local);
    } else {
      boxes[i].grad = units[places[i].first].gradient(placement(i));
    }
  }
  shared_slices.sum_gradients(boxes);
  for (const size_t box : in_every_stage) {
    boxes[box].grad = boxes[box].grad.contiguous();
    if (boxes[box].grad.numel() == 0) continue;
    all_reduce(mesh.group({Axis::pp}), boxes[box].grad, "the gradient of " + boxes[box].name).wait();
  }
  if (!shared_between_stages.empty()) {
    std::vector<at::Tensor> shared;
    for (const size_t box : shared_between_stages) shared.push_back(boxes[box].grad);
    pipeline->sum_between_ends(shared);
  }
  if (!options.offload.optimizer) return;
  host_gradients.take(boxes, mesh.device());
  for (UnitParameters& unit : units) unit.begin_step();  // frees those on the device
}

StageFunctions ParallelModel::State::stage_functions(size_t micro_batches) {
  const auto forward = [this](const Batch& batch) {
    if (runner) runner->enter_stage(pipeline->running());
    return this->forward(batch);
  };
  // A unit's backward is one node, which gathers, computes all gradients and reduces: it cannot be cut.
  const bool can_cut = !runner;
  const size_t all = pipeline->own_stages().size() * micro_batches;
  const auto run_backward = [this, can_cut, micro_batches, all, done = std::map<int64_t, size_t>(),
                             done_of_all = size_t{}](const PipelineAction& action,
                                                     const std::function<void()>& autograd) mutable {
    if (can_cut && action.kind == PipelineAction::Kind::backward_input) {
      RECORD_USER_SCOPE("backward of inputs");
      return autograd();
    }
    const bool last_of_stage = ++done[action.stage] == micro_batches;
    backward(autograd, last_of_stage, /*last_of_step=*/++done_of_all == all, stages_with_root.contains(action.stage));
  };
  return {forward, run_backward, can_cut};
}

void ParallelModel::State::count_choices(std::span<const Batch> micro_batches) {
  // The choices of a single micro-batch are known between its forward and its backward.
  if (!routers->needs_counts() || (micro_batches.size() == 1 && !pipeline)) return;
  const at::NoGradGuard no_grad;
  routers->only_count(true);
  evaluate(micro_batches);
  if (runner) runner->release_all();
  routers->only_count(false);
  routers->settle();
}

PipelineSums ParallelModel::State::train(std::span<const Batch> micro_batches, double scale) {
  if (pipeline) return pipeline->train(micro_batches, stage_functions(micro_batches.size()), scale);
  RunningSum loss, count;
  const auto add = [&](const Outputs& outputs) { loss.add(outputs.loss_sum), count.add(outputs.token_count); };
  if (replicas) {
    replicas->begin_step();
    for (const Batch& batch : micro_batches) add(replicas->run(batch, scale));
    replicas->end_step();
    return {loss.value(), static_cast<int64_t>(count.value())};
  }
  for (const Batch& batch : micro_batches) {
    const Outputs outputs = forward(batch);
    add(outputs);
    const bool last = &batch == &micro_batches.back();
    if (routers) routers->settle();
    const auto autograd = [&] {
      // Of a model that is frozen whole, nothing has a gradient.
      if (outputs.loss_sum.requires_grad())
        torch::autograd::backward({outputs.loss_sum}, {at::full_like(outputs.loss_sum, scale)});
    };
    backward(autograd, last, last, /*with_root=*/true);
  }
  return {loss.value(), static_cast<int64_t>(count.value())};
}

PipelineSums ParallelModel::State::evaluate(std::span<const Batch> batches) {
  if (pipeline) return pipeline->evaluate(batches, stage_functions(0));
  RunningSum loss, count;
  for (const Batch& batch : batches) {
    const Outputs outputs = forward(batch);
    loss.add(outputs.loss_sum);
    count.add(outputs.token_count);
  }
  return {loss.value(), static_cast<int64_t>(count.value())};
}

std::vector<double> ParallelModel::State::sum(std::vector<double> values, const char* what) {
  if (!data_parallel) return values;
  // In host memory, so that no GPU is waited for.
  const at::Tensor total =
      at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::TensorOptions().dtype(at::kDouble));
  all_reduce(data_parallel, total, what).wait();
  return values;
}

std::vector<double> ParallelModel::State::sum_over_stages(std::vector<double> values, const char* what) {
  return pipeline ? pipeline->sum(std::move(values), what) : values;
}

StepResult ParallelModel::step(std::span<const Batch> micro_batches) {
  State& state = *state_;
  Parallel parallel = state.parallel();
  parallel.dropout = state.dropout ? &*state.dropout : nullptr;
  parallel.routing = state.routers ? &*state.routers : nullptr;
  UnitScopes scopes(state.table.units);
  if (!parallel.units && torch::profiler::impl::profilerEnabled()) parallel.units = &scopes;
  const Binding binding(parallel);
  const InstalledSavedTensors installed_saved(state.saved ? &*state.saved : nullptr);
  const WatchedOperations watched(state.saved ? &*state.saved : nullptr);

  int64_t targets = 0, positions = 0, rows = 0;
  for (const Batch& batch : micro_batches) {
    targets += targets_of(state.entry, batch);
    if (state.routers) positions += positions_of(batch), rows += batch.leading().size(0);
  }
  std::vector<double> totals = {static_cast<double>(targets)};
  if (state.routers) totals.insert(totals.end(), {static_cast<double>(positions), static_cast<double>(rows)});
  totals = state.sum(std::move(totals), "the number of targets");
  const double total = totals[0], scale = total > 0 ? 1.0 / total : 0.0;
  if (state.routers) {
    state.routers->begin_step(/*positions=*/totals[1], /*sequences=*/totals[2]);
    state.count_choices(micro_batches);
  }

  state.begin_step();
  const PipelineSums sums = state.train(micro_batches, scale);
  state.end_step();
  std::vector<double> found = {sums.loss_sum, static_cast<double>(sums.token_count)};
  if (state.routers) std::ranges::copy(state.routers->finish(), std::back_inserter(found));
  found = state.sum(std::move(found), "the loss");
  if (state.routers) {
    const std::vector<double> of_stages = state.routers->take_counts(std::span(found).subspan(2));
    found.resize(2);
    found.insert(found.end(), of_stages.begin(), of_stages.end());
  }
  found = state.sum_over_stages(std::move(found), "the pipeline's loss");
  TORCH_INTERNAL_ASSERT(found[1] == total || !values_are_known, "the model counts other targets than the runtime");
  StepResult result{found[0] * scale, static_cast<int64_t>(total)};
  if (state.routers) {
    const RouterReport report = state.routers->report(std::span(found).subspan(2));
    result.router_loss = report.loss, result.expert_load = report.load;
  }
  return result;
}

void ParallelModel::move_router_biases() {
  if (state_->routers) state_->routers->move_biases();
}

StepResult ParallelModel::evaluate(std::span<const Batch> batches) {
  State& state = *state_;
  const Binding binding(state.parallel());
  const at::NoGradGuard no_grad;
  const PipelineSums own = state.evaluate(batches);
  if (state.runner) state.runner->release_all();
  constexpr const char* kWhat = "the evaluation's loss";
  const auto sums =
      state.sum_over_stages(state.sum({own.loss_sum, static_cast<double>(own.token_count)}, kWhat), kWhat);
  return {sums[1] > 0 ? sums[0] / sums[1] : 0.0, static_cast<int64_t>(sums[1])};
}

bool ParallelModel::can_cache() const { return find_task(state_->entry.task)->cached; }

at::Tensor ParallelModel::logits(const Batch& batch, cache::Cache* cache) {
  State& state = *state_;
  TORCH_CHECK(!cache || can_cache(), state.entry.architecture, " is for ", state.entry.task,
              ", which cannot continue from a cache: give whole sequences");
  TORCH_CHECK(!cache || (!batch.attention_mask.defined() && !batch.position_ids.defined()),
              "a cache counts positions itself and knows no padding: leave out attention_mask and position_ids, or "
              "give whole sequences without a cache");
  Parallel parallel = state.parallel();
  parallel.cache = cache;
  const Binding binding(parallel);
  const at::NoGradGuard no_grad;
  Batch asked = batch;
  asked.want_logits = true;
  const at::Tensor logits =
      state.pipeline ? state.pipeline->logits(asked, state.stage_functions(0)) : state.model.forward(asked).logits;
  if (cache) cache->advance(batch.input_ids.size(1));
  if (state.runner) state.runner->release_all();
  return logits;
}

}  // namespace modular
