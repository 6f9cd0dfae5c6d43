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
#include "runtime/model/tasks.h"
#include "runtime/parallel/fsdp/unit_scopes.h"
#include "runtime/parallel/memory/copy_to_device.h"
#include "runtime/parallel/memory/recomputed_operations.h"
#include "runtime/parallel/parallel_model_state.h"
#include "runtime/parallel/parameters/known_values.h"
#include "runtime/parallel/pipeline/running_sum.h"

namespace modular {
namespace {

/// Number of non-padding positions of the batch.
int64_t get_positions(const Batch& batch) {
  return batch.attention_mask.defined() ? batch.attention_mask.ne(0).sum().item<int64_t>() : batch.leading().numel();
}

/// Returns the batch with its tensors on `device`.
Batch copied_to(const at::Device& device, Batch batch) {
  batch.tensors([&](at::Tensor& tensor) {
    if (tensor.defined()) tensor = copy_to_device(tensor, device);
  });
  return batch;
}

std::vector<Batch> copied_to(const at::Device& device, std::span<const Batch> batches) {
  std::vector<Batch> copied;
  for (const Batch& batch : batches) copied.push_back(copied_to(device, batch));
  return copied;
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

void ParallelModel::parameters_changed() {
  at::NoGradGuard no_grad;
  std::set<size_t> to_refresh;
  for (size_t i = 0; i < state_->slices.size(); ++i)
    if (!std::exchange(state_->slices[i].compute_copy_is_fresh, false))
      to_refresh.insert(state_->layout_indices[i].first);
  for (const size_t unit : to_refresh) state_->units[unit].refresh();
}

void ParallelModel::State::begin_step(size_t micro_batches) {
  const bool single_backward = has_local_compute_copy() && micro_batches == 1 && !replicas;
  for (ShardedParameter& slice : slices) slice.grad.reset();
  for (UnitParameters& unit : units) unit.begin_step(single_backward);
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
  for (size_t i = 0; i < slices.size(); ++i) {
    if (!slices[i].trainable) continue;
    if (in_place) {
      slices[i].grad = placement(i).registered.grad();
      if (!slices[i].grad.defined()) slices[i].grad = at::zeros_like(slices[i].local);
    } else {
      slices[i].grad = units[layout_indices[i].first].gradient(placement(i));
    }
  }
  shared_slices.sum_gradients(slices);
  for (const size_t slice : in_every_stage) {
    slices[slice].grad = slices[slice].grad.contiguous();
    if (slices[slice].grad.numel() == 0) continue;
    all_reduce(mesh.group({Axis::pp}), slices[slice].grad, "the gradient of " + slices[slice].name).wait();
  }
  if (!shared_between_stages.empty()) {
    std::vector<at::Tensor> shared;
    for (const size_t slice : shared_between_stages) shared.push_back(slices[slice].grad);
    pipeline->sum_between_ends(shared);
  }
  if (!options.offload.optimizer) return;
  host_gradients.take(slices, mesh.device());
  for (UnitParameters& unit : units) unit.begin_step();  // frees the gradients on the device
}

StageFunctions ParallelModel::State::stage_functions(size_t micro_batches) {
  const auto forward = [this](const Batch& batch) {
    if (runner) runner->enter_stage(pipeline->running());
    return this->forward(batch);
  };
  // A unit's backward is one node, which unshards, computes all gradients and reduces them: it cannot be split.
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

int64_t ParallelModel::State::count_own_targets(std::span<const Batch> micro_batches) const {
  if (sentences) return sentences->targets(micro_batches);
  int64_t targets = 0;
  for (const Batch& batch : micro_batches)
    if (batch.labels.defined()) targets += count_targets(find_task(entry.task)->targets(batch.labels)).item<int64_t>();
  return targets;
}

void ParallelModel::State::compare_samples(std::span<const Batch> micro_batches) {
  sentences->begin(/*trains=*/true);
  // The samples of a single micro-batch are compared within its forward.
  if (!sentences->compares_samples(micro_batches.front()) || (micro_batches.size() == 1 && !pipeline)) return;
  const at::NoGradGuard no_grad;
  Parallel parallel = bound;
  parallel.routing = nullptr;
  const Binding binding(parallel);
  sentences->collect();
  evaluate(micro_batches, nullptr);
  if (runner) runner->reshard_all();
  sentences->settle();
}

void ParallelModel::State::count_choices(std::span<const Batch> micro_batches) {
  // The choices of a single micro-batch are known between its forward and its backward.
  if (!routers->needs_counts() || (micro_batches.size() == 1 && !pipeline)) return;
  const at::NoGradGuard no_grad;
  routers->only_count(true);
  evaluate(micro_batches, nullptr);
  if (runner) runner->reshard_all();
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
    return {loss.tensor(), count.tensor()};
  }
  for (const Batch& batch : micro_batches) {
    const Outputs outputs = forward(batch);
    add(outputs);
    const bool last = &batch == &micro_batches.back();
    if (routers) routers->settle();
    const auto autograd = [&] {
      // If all parameters are frozen, the loss requires no gradient.
      if (outputs.loss_sum.requires_grad())
        torch::autograd::backward({outputs.loss_sum}, {at::full_like(outputs.loss_sum, scale)});
    };
    backward(autograd, last, last, /*with_root=*/true);
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

std::vector<double> ParallelModel::State::sum(std::vector<double> values, const char* what) {
  if (!data_parallel) return values;
  // In host memory, to avoid waiting for a GPU.
  const at::Tensor total =
      at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::TensorOptions().dtype(at::kDouble));
  all_reduce(data_parallel, total, what).wait();
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
  Parallel parallel = state.parallel();
  parallel.dropout = state.dropout ? &*state.dropout : nullptr;
  parallel.routing = state.routers ? &*state.routers : nullptr;
  if (state.sampler) {
    state.sampler->begin_step(number);
    parallel.sampled = &state.sampler->sampled();
  }
  UnitScopes scopes(state.table.units);
  if (!parallel.units && torch::profiler::impl::profilerEnabled()) parallel.units = &scopes;
  const Binding binding(parallel);
  const InstalledSavedTensors installed_saved(state.saved ? &*state.saved : nullptr);
  const WatchedOperations watched(state.saved ? &*state.saved : nullptr);

  const int64_t targets = state.count_own_targets(batches);  // before they are copied, to avoid waiting for a GPU
  int64_t positions = 0, rows = 0;
  for (const Batch& batch : batches)
    if (state.routers) positions += get_positions(batch), rows += batch.leading().size(0);
  std::vector<double> totals = {static_cast<double>(targets)};
  if (state.routers) totals.insert(totals.end(), {static_cast<double>(positions), static_cast<double>(rows)});
  totals = state.sum(std::move(totals), "the number of targets");
  const std::vector<Batch> micro_batches = copied_to(state.mesh.device(), batches);
  const double total = totals[0], scale = total > 0 ? 1.0 / total : 0.0;
  if (state.sentences) state.compare_samples(micro_batches);
  if (state.routers) {
    state.routers->begin_step(/*positions=*/totals[1], /*sequences=*/totals[2]);
    state.count_choices(micro_batches);
  }

  state.begin_step(batches.size());
  at::Tensor numbers = stack_sums(state.train(micro_batches, scale), state.mesh.device());
  state.end_step();
  if (state.routers) numbers = at::cat({numbers, state.routers->finish()});
  return {numbers, static_cast<int64_t>(total)};
}

StepResult ParallelModel::finish_step(const LaunchedStep& launched) {
  State& state = *state_;
  const auto total = static_cast<double>(launched.target_count);
  std::vector<double> found = state.sum(on_host(launched.numbers), "the loss");
  if (state.routers) {
    const std::vector<double> stage_numbers = state.routers->take_counts(std::span(found).subspan(2));
    found.resize(2);
    found.insert(found.end(), stage_numbers.begin(), stage_numbers.end());
  }
  found = state.sum_over_stages(std::move(found), "the pipeline's loss");
  TORCH_INTERNAL_ASSERT(found[1] == total || !values_are_known,
                        "the model and the runtime count different numbers of targets");
  StepResult result{total > 0 ? found[0] * (1.0 / total) : 0.0, launched.target_count};
  if (state.routers) {
    const RouterReport report = state.routers->report(std::span(found).subspan(2));
    result.router_loss = report.loss, result.expert_load = report.load;
  }
  return result;
}

void ParallelModel::move_router_biases() {
  if (state_->routers) state_->routers->move_biases();
}

StepResult ParallelModel::evaluate(std::span<const Batch> batches, const SeeLogits& see) {
  State& state = *state_;
  const Binding binding(state.parallel());
  const at::NoGradGuard no_grad;
  std::vector<Batch> inputs = copied_to(state.mesh.device(), batches);
  for (Batch& batch : inputs) batch.want_logits = see != nullptr;
  if (state.sentences) state.sentences->begin(/*trains=*/false), state.sentences->collect();
  std::vector<double> own = on_host(stack_sums(state.evaluate(inputs, see), state.mesh.device()));
  if (state.sentences) {
    const auto compared = state.sentences->settle();
    own[0] += compared.loss, own[1] += static_cast<double>(compared.count);
  }
  if (state.runner) state.runner->reshard_all();
  constexpr const char* kWhat = "the evaluation's loss";
  const auto sums = state.sum_over_stages(state.sum(std::move(own), kWhat), kWhat);
  return {sums[1] > 0 ? sums[0] / sums[1] : 0.0, static_cast<int64_t>(sums[1])};
}

bool ParallelModel::can_cache() const { return find_task(state_->entry.task)->cached; }

at::Tensor ParallelModel::logits(const Batch& batch, cache::Cache* cache) {
  State& state = *state_;
  TORCH_CHECK(!cache || can_cache(), state.entry.architecture, " is for ", state.entry.task,
              ", which cannot continue from a cache: give full sequences");
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
  Parallel parallel = state.parallel();
  parallel.cache = cache;
  const Binding binding(parallel);
  const at::NoGradGuard no_grad;
  Batch input = copied_to(state.mesh.device(), batch);
  input.want_logits = true;
  if (state.sentences)
    input.labels.reset();  // embeddings do not depend on labels, and the loss would be that of a step
  if (cache) cache->begin(input.attention_mask);
  const at::Tensor logits =
      state.pipeline ? state.pipeline->logits(input, state.stage_functions(0)) : state.model.forward(input).logits;
  if (cache) cache->advance(batch.input_ids.size(1));
  if (state.runner) state.runner->reshard_all();
  return logits;
}

}  // namespace modular
