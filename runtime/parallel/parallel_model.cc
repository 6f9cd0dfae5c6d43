#include "runtime/parallel/parallel_model.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "runtime/mesh/collectives.h"
#include "runtime/model/fsdp.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/memory/host_transfers.h"
#include "runtime/parallel/memory/saved_tensors.h"
#include "runtime/parallel/parallel_model_state.h"
#include "runtime/parallel/step/dry_run_hooks.h"

namespace modular {
namespace {

/// Runs units as plain calls, each in a profiler scope with its name.
class UnitScopes final : public fsdp::Units {
 public:
  /// `units` must outlive this object.
  explicit UnitScopes(const std::vector<ModelUnit>& units) : units_(units) {}

  std::vector<at::Tensor> run(nn::Module& module, const std::vector<at::Tensor>& inputs, const Body& body) override {
    RECORD_USER_SCOPE(name_for(module));
    return body(inputs);
  }

 private:
  std::string name_for(const nn::Module& module) const {
    for (const ModelUnit& unit : units_)
      if (unit.module == &module && !unit.name.empty()) return unit.name;
    return module.name();
  }

  const std::vector<ModelUnit>& units_;
};

/// Returns the batch with its tensors on `device`.
Batch copied_to(const at::Device& device, Batch batch) {
  batch.tensors([&](at::Tensor& tensor) {
    if (tensor.defined()) tensor = copy_to_device(tensor, device);
  });
  return batch;
}

/// Stacks the sums into a tensor [2] on `device`; undefined sums are 0.
at::Tensor stack_sums(const PipelineSums& sums, const at::Device& device) {
  const at::Tensor none = at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device));
  return at::stack(
      {sums.loss_sum.defined() ? sums.loss_sum : none, sums.token_count.defined() ? sums.token_count : none});
}

/// Copies float64 numbers to the host, and waits for them.
std::vector<double> on_host(const at::Tensor& numbers) {
  const at::Tensor values = numbers.cpu().contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

}  // namespace

ParallelModel::~ParallelModel() = default;

std::vector<ShardedParameter>& ParallelModel::parameters() { return state_->slices; }
std::vector<ShardedParameter>& ParallelModel::buffers() { return state_->buffers; }
Mesh& ParallelModel::mesh() { return state_->mesh; }

void ParallelModel::parameters_changed() { state_->parameters_changed(); }

void ParallelModel::State::parameters_changed() {
  const at::NoGradGuard no_grad;
  std::set<size_t> to_refresh;
  for (size_t i = 0; i < slices.size(); ++i)
    if (!std::exchange(slices[i].compute_copy_is_fresh, false)) to_refresh.insert(layout_indices[i].first);
  for (const size_t unit : to_refresh) units[unit].refresh();
}

void ParallelModel::State::clear_gradients(size_t micro_batches) {
  for (ShardedParameter& slice : slices) slice.grad.reset();
  for (UnitParameters& unit : units) unit.begin_step(has_gradients_in_place(micro_batches));
}

Outputs ParallelModel::State::forward(const Batch& batch) {
  RECORD_USER_SCOPE("forward");
  const int64_t stage = pipeline ? pipeline->running() : 0;
  for (const auto& feature : features) feature->before_forward(batch, stage);
  SavedTensors::Frame frame(saved.get(), {});
  Outputs outputs = model.forward(batch);
  frame.finish(/*offload=*/false);
  return outputs;
}

void ParallelModel::State::backward(const std::function<void()>& autograd, const StageBackward& kind) {
  for (const auto& feature : features) feature->before_backward(kind);
  RECORD_USER_SCOPE("backward");
  autograd();
  for (const auto& feature : features) feature->after_backward(kind);
}

void ParallelModel::State::finish_gradients() {
  for (const auto& feature : features) feature->end_step();
  for (size_t i = 0; i < slices.size(); ++i)
    if (slices[i].trainable) slices[i].grad = units[layout_indices[i].first].gradient(placement(i));
  for (const auto& feature : features) feature->reduce_gradients(slices);
}

StageFunctions ParallelModel::State::stage_functions(size_t micro_batches) {
  // An FSDP unit's backward is one node, which unshards, computes all gradients and reduces them: it cannot be split.
  const bool can_cut = !in_forwards.units;
  const size_t all = pipeline->own_stages().size() * micro_batches;
  const auto run_backward = [this, can_cut, micro_batches, all, done = std::map<int64_t, size_t>(),
                             done_of_all = size_t{}](const PipelineAction& action,
                                                     const std::function<void()>& autograd) mutable {
    if (can_cut && action.kind == PipelineAction::Kind::backward_input) {
      RECORD_USER_SCOPE("backward of inputs");
      return autograd();
    }
    backward(autograd, {.last_of_stage = ++done[action.stage] == micro_batches,
                        .last_of_step = ++done_of_all == all,
                        .with_root = stages_with_root.contains(action.stage)});
  };
  return {[this](const Batch& batch) { return forward(batch); }, run_backward, can_cut};
}

std::vector<Batch> ParallelModel::State::inputs(std::span<const Batch> batches) {
  std::vector<Batch> own;
  if (context) context->forget_batches();
  for (const Batch& batch : batches) {
    if (!context) {
      own.push_back(copied_to(mesh.device(), batch));
      continue;
    }
    const DealtRuns runs = context->deal(batch);
    own.push_back(copied_to(mesh.device(), context->cut(batch, runs)));
    context->remember(own.back(), runs);
  }
  return own;
}

void ParallelModel::State::end_forwards() {
  for (const auto& feature : features) feature->end_forwards();
}

PipelineSums ParallelModel::State::train(std::span<const Batch> micro_batches, double scale) {
  if (pipeline) return pipeline->train(micro_batches, stage_functions(micro_batches.size()), scale);
  RunningSum loss, count;
  const auto add = [&](const Outputs& outputs) { loss.add(outputs.loss_sum), count.add(outputs.token_count); };
  if (replicas) {
    replicas->begin_step();
    for (const Batch& batch : micro_batches) add(replicas->run(batch, scale));
    replicas->end_step();
    return {loss.tensor(), count.tensor()};
  }
  for (const Batch& batch : micro_batches) {
    const Outputs outputs = forward(batch);
    add(outputs);
    const bool last = &batch == &micro_batches.back();
    const auto autograd = [&] {
      // If all parameters are frozen, the loss requires no gradient.
      if (outputs.loss_sum.requires_grad())
        torch::autograd::backward({outputs.loss_sum}, {at::full_like(outputs.loss_sum, scale)});
    };
    backward(autograd, {.last_of_stage = last, .last_of_step = last});
  }
  return {loss.tensor(), count.tensor()};
}

PipelineSums ParallelModel::State::evaluate(std::span<const Batch> batches, const SeeLogits& see) {
  if (pipeline) {
    StageFunctions functions = stage_functions(0);
    if (see)
      functions.forward = [this, &see, forward = std::move(functions.forward)](const Batch& batch) {
        Outputs outputs = forward(batch);
        if (pipeline->is_last()) see(batch, outputs.logits);
        return outputs;
      };
    return pipeline->evaluate(batches, functions);
  }
  RunningSum loss, count;
  for (const Batch& batch : batches) {
    const Outputs outputs = forward(batch);
    loss.add(outputs.loss_sum);
    count.add(outputs.token_count);
    if (see) see(batch, outputs.logits);
  }
  return {loss.tensor(), count.tensor()};
}

std::vector<double> ParallelModel::State::sum(const ProcessGroup& group, std::vector<double> values, const char* what) {
  if (!group) return values;
  // In host memory, to avoid waiting for a GPU.
  const at::Tensor total =
      at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::TensorOptions().dtype(at::kDouble));
  all_reduce(group, total, what).wait();
  return values;
}

std::vector<double> ParallelModel::State::sum_over_stages(std::vector<double> values, const char* what) {
  return pipeline ? pipeline->sum(std::move(values), what) : values;
}

void ParallelModel::train_for(const SentenceOptions& sentences) {
  if (state_->sentences) state_->sentences->train_for(sentences);
}

LaunchedStep ParallelModel::launch_step(std::span<const Batch> batches, int64_t number) {
  State& state = *state_;
  Parallel parallel = state.in_training;
  UnitScopes scopes(state.table.units);
  if (!parallel.units && torch::profiler::impl::profilerEnabled()) parallel.units = &scopes;

  // Counted before the batches are copied, to avoid waiting for a GPU.
  TrainingStep step{
      .number = number, .micro_batches = batches, .is_one_forward = batches.size() == 1 && !state.pipeline};
  for (const auto& feature : state.features) feature->begin_step(step);
  step.counts = state.sum(state.rows, std::move(step.counts), "the number of targets");
  if (state.sequence) parallel.sequence = state.sequence->for_step(step);
  const Binding binding(parallel);
  const InstalledSavedTensors installed_saved(state.saved.get());
  const WatchedOperations watched(state.saved.get());
  const std::vector<Batch> micro_batches = state.inputs(batches);
  step.micro_batches = micro_batches;
  step.run_forwards = [&] {
    state.evaluate(micro_batches, nullptr);
    state.end_forwards();
  };
  for (const auto& feature : state.features) feature->before_forwards(step);

  const bool counts = state.counts_loss();
  const double total = step.counts.front(), scale = counts && total > 0 ? 1.0 / total : 0.0;
  state.clear_gradients(batches.size());
  std::vector<at::Tensor> numbers = {stack_sums(state.train(micro_batches, scale), state.mesh.device())};
  if (!counts) numbers.front().zero_();
  state.finish_gradients();

  LaunchedStep launched;
  launched.target_count = static_cast<int64_t>(total);
  for (const auto& feature : state.features) {
    const at::Tensor own = feature->statistics();
    launched.statistics.push_back(own.defined() ? own.numel() : 0);
    if (own.defined()) numbers.push_back(own);
  }
  launched.numbers = numbers.size() > 1 ? at::cat(numbers) : numbers.front();
  return launched;
}

StepResult ParallelModel::finish_step(const LaunchedStep& launched) {
  State& state = *state_;
  const auto total = static_cast<double>(launched.target_count);
  const std::vector<double> sums = state.sum(state.losses, on_host(launched.numbers), "the loss");
  std::vector<double> of_stages = {sums[0], sums[1]};
  std::vector<size_t> ends;  // of each feature's numbers in of_stages
  std::span<const double> statistics = std::span(sums).subspan(2);
  for (size_t i = 0; i < state.features.size(); ++i) {
    const auto count = static_cast<size_t>(launched.statistics[i]);
    const std::vector<double> own = state.features[i]->take_statistics(statistics.first(count));
    statistics = statistics.subspan(count);
    of_stages.insert(of_stages.end(), own.begin(), own.end());
    ends.push_back(of_stages.size());
  }

  const std::vector<double> found = state.sum_over_stages(std::move(of_stages), "the pipeline's loss");
  TORCH_INTERNAL_ASSERT(found[1] == total || !values_are_known,
                        "the model and the runtime count different numbers of targets");
  StepResult result{total > 0 ? found[0] * (1.0 / total) : 0.0, launched.target_count};
  for (size_t i = 0, begin = 2; i < state.features.size(); begin = ends[i++])
    state.features[i]->report(std::span(found).subspan(begin, ends[i] - begin), result);
  return result;
}

void ParallelModel::move_router_biases() {
  for (const auto& feature : state_->features) feature->after_update();
}

StepResult ParallelModel::evaluate(std::span<const Batch> batches, const SeeLogits& see) {
  State& state = *state_;
  Parallel parallel = state.in_forwards;
  if (state.sequence) parallel.sequence = state.sequence->for_batches(batches);
  const Binding binding(parallel);
  const at::NoGradGuard no_grad;
  std::vector<Batch> inputs = state.inputs(batches);
  for (Batch& batch : inputs) batch.want_logits = see != nullptr;
  SeeLogits see_all = see;
  if (see && state.has_cut_logits())
    see_all = [&, number = size_t{0}](const Batch&, const at::Tensor& logits) mutable {
      const Batch all = copied_to(state.mesh.device(), batches[number++]);
      see(all, state.context->join_logits(logits, all));
    };
  for (const auto& feature : state.features) feature->begin_evaluation();
  std::vector<double> own = on_host(stack_sums(state.evaluate(inputs, see_all), state.mesh.device()));
  for (const auto& feature : state.features) feature->end_evaluation(own[0], own[1]);
  if (!state.counts_loss()) own = {0.0, 0.0};
  state.end_forwards();
  constexpr const char* kWhat = "the evaluation's loss";
  const auto sums = state.sum_over_stages(state.sum(state.losses, std::move(own), kWhat), kWhat);
  return {sums[1] > 0 ? sums[0] / sums[1] : 0.0, static_cast<int64_t>(sums[1])};
}

bool ParallelModel::can_cache() const { return find_task(state_->entry.task)->cached && !state_->entry.plan->uncached; }

at::Tensor ParallelModel::logits(const Batch& batch, cache::Cache* cache) {
  State& state = *state_;
  TORCH_CHECK(!cache || can_cache(), state.entry.architecture, " is for ", state.entry.task,
              ", and cannot continue from a cache: give full sequences");
  TORCH_CHECK(
      !cache || (!batch.position_ids.defined() && !batch.documents.defined()),
      "a cache counts positions itself and does not support documents: leave out position_ids and documents, or "
      "give full sequences without a cache");
  if (cache && batch.attention_mask.defined()) {
    const std::vector<int64_t> expected = {batch.input_ids.size(0), cache->seen() + batch.input_ids.size(1)};
    TORCH_CHECK(batch.attention_mask.sizes() == at::IntArrayRef(expected), "attention_mask of shape ",
                batch.attention_mask.sizes(), " with a cache: give one of shape ", at::IntArrayRef(expected),
                ", for the tokens in the cache followed by those of this forward");
  }
  Parallel parallel = state.in_forwards;
  parallel.cache = cache;
  const std::span<const Batch> one(&batch, 1);
  if (cache) parallel.context = nullptr;  // each rank continues all positions
  if (state.sequence && !cache) parallel.sequence = state.sequence->for_batches(one);
  const Binding binding(parallel);
  const at::NoGradGuard no_grad;
  Batch input = cache ? copied_to(state.mesh.device(), batch) : state.inputs(one).front();
  input.want_logits = true;
  if (state.sentences)
    input.labels.reset();  // embeddings do not depend on labels, and the loss would be that of a step
  if (cache) cache->begin(input.attention_mask);
  if (state.context && !cache) state.context->before_forward(input, /*stage=*/0);
  const at::Tensor logits =
      state.pipeline ? state.pipeline->logits(input, state.stage_functions(0)) : state.model.forward(input).logits;
  if (cache) cache->advance(batch.input_ids.size(1));
  state.end_forwards();
  return state.has_cut_logits() && !cache ? state.context->join_logits(logits, batch) : logits;
}

}  // namespace modular
