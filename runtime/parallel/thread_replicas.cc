#include "runtime/parallel/thread_replicas.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <exception>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "runtime/mesh/collectives.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/own_gradient.h"
#include "runtime/parallel/random/dropout_rng.h"

namespace modular {
namespace {

/// Counts one transfer through the first device.
void count_collective(double bytes) {
  ++traffic().collectives;
  traffic().bytes += bytes;
}

/// Returns samples [first, first + count) of a batch, each with its `texts` rows, on `device`.
Batch take_rows(Batch batch, int64_t first, int64_t count, int64_t texts, const at::Device& device) {
  const int64_t rows = batch.leading().size(0);
  batch.tensors([&](Tensor& tensor) {
    if (!tensor.defined()) return;
    const bool is_by_sample = texts > 1 && tensor.is_same(batch.labels);
    TORCH_CHECK(tensor.size(0) == (is_by_sample ? rows / texts : rows), "a batch of ", rows, " rows has a tensor of ",
                tensor.size(0), ": parallel.dp_threads splits batches by rows, so set it to 1");
    const int64_t rows_of_each = is_by_sample ? 1 : texts;
    tensor = tensor.narrow(0, first * rows_of_each, count * rows_of_each).to(device, /*non_blocking=*/true);
  });
  return batch;
}

double get_bytes(Batch batch) {
  double bytes = 0.0;
  batch.tensors([&](Tensor& tensor) { bytes += tensor.defined() ? static_cast<double>(tensor.nbytes()) : 0.0; });
  return bytes;
}

/// Returns the distinct parameters of a model in module-tree order, and its buffers.
std::pair<std::vector<Tensor>, std::vector<Tensor>> find_tensors(nn::Module& module) {
  std::vector<Tensor> parameters;
  std::set<const void*> seen;
  for (const Tensor& parameter : module.parameters())
    if (seen.insert(parameter.unsafeGetTensorImpl()).second) parameters.push_back(parameter);
  return {parameters, module.buffers()};
}

}  // namespace

struct ThreadReplicas::Replica {
  Model model;
  at::Device device = at::kCPU;
  std::vector<Tensor> parameters, buffers;
  std::optional<StepDropoutRng> dropout;

  Replica(Model model, std::optional<uint64_t> dropout_seed) : model(std::move(model)) {
    std::tie(parameters, buffers) = find_tensors(*this->model.module);
    if (dropout_seed) dropout.emplace(*this->model.module, *dropout_seed);
  }
};

ThreadReplicas::~ThreadReplicas() = default;

ThreadReplicas::ThreadReplicas(const Entry& entry, const AnyConfig& config, Model& first, int64_t count,
                               std::optional<uint64_t> dropout_seed)
    : task_(find_task(entry.task)) {
  replicas_.push_back(std::make_unique<Replica>(first, dropout_seed));
  Replica& main = *replicas_.front();
  if (!main.parameters.empty()) main.device = main.parameters.front().device();
  for (int64_t i = 1; i < count; ++i) {
    Replica& replica = *replicas_.emplace_back(std::make_unique<Replica>(build_on_meta(entry, config), dropout_seed));
    replica.model.module->eval();
    replica.device = main.device;
    if (!main.device.is_cpu()) replica.device.set_index(static_cast<at::DeviceIndex>(main.device.index() + i));
    for (size_t p = 0; p < main.parameters.size(); ++p) {
      make_real(replica.parameters[p], at::empty_like(main.parameters[p].detach(), replica.device));
      replica.parameters[p].requires_grad_(main.parameters[p].requires_grad());
    }
    for (size_t b = 0; b < main.buffers.size(); ++b)
      make_real(replica.buffers[b], at::empty_like(main.buffers[b], replica.device));
  }
}

void ThreadReplicas::on_threads(size_t count, const std::function<void(size_t replica)>& body) {
  const int all = at::get_num_threads();
  const int each = replicas_.front()->device.is_cpu() ? std::max(1, all / static_cast<int>(replicas_.size())) : all;
  std::vector<std::exception_ptr> errors(count);
  const auto run = [&](size_t replica) {
    at::set_num_threads(each);
    const c10::DeviceGuard device(replicas_[replica]->device);
    try {
      body(replica);
    } catch (...) {
      errors[replica] = std::current_exception();
    }
  };
  {
    const auto restore = c10::make_scope_exit([&] { at::set_num_threads(all); });
    std::vector<std::jthread> threads;
    for (size_t replica = 1; replica < count; ++replica) threads.emplace_back(run, replica);
    run(0);
    threads.clear();  // joins them
  }
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

void ThreadReplicas::begin_step() {
  const Replica& main = *replicas_.front();
  double bytes = 0.0;
  for (const Tensor& parameter : main.parameters) bytes += static_cast<double>(parameter.nbytes());
  count_collective(bytes * static_cast<double>(replicas_.size() - 1));
  on_threads(replicas_.size(), [&](size_t number) {
    if (number == 0) return;
    const at::NoGradGuard no_grad;
    Replica& replica = *replicas_[number];
    for (size_t p = 0; p < main.parameters.size(); ++p) {
      replica.parameters[p].copy_(main.parameters[p]);
      replica.parameters[p].mutable_grad().reset();
    }
    for (size_t b = 0; b < main.buffers.size(); ++b) replica.buffers[b].copy_(main.buffers[b]);
  });
}

Outputs ThreadReplicas::run(const Batch& batch, double scale) {
  Batch numbered = batch;
  const int64_t rows = batch.leading().size(0);
  if (!numbered.samples.defined())
    numbered.samples = at::arange(rows, at::TensorOptions(at::kLong).device(batch.leading().device()));
  const auto all = static_cast<int64_t>(replicas_.size());
  const int64_t texts = std::max<int64_t>(task_->texts, 1), samples = rows / texts;
  const size_t used = static_cast<size_t>(std::min(samples, all));
  std::vector<Batch> parts;
  double scattered_bytes = 0.0;
  for (size_t i = 0; i < used; ++i) {
    const int64_t number = static_cast<int64_t>(i), first = samples * number / static_cast<int64_t>(used);
    const int64_t end = samples * (number + 1) / static_cast<int64_t>(used);
    parts.push_back(take_rows(numbered, first, end - first, texts, replicas_[i]->device));
    if (i > 0) scattered_bytes += get_bytes(parts.back());
  }
  count_collective(scattered_bytes);

  std::vector<Outputs> outputs(used);
  const SampledClasses* const sampled = bound.sampled;
  on_threads(used, [&](size_t number) {
    Replica& replica = *replicas_[number];
    Parallel parallel;
    parallel.sampled = sampled;
    if (replica.dropout) {
      replica.dropout->before_forward(parts[number]);
      parallel.dropout = &*replica.dropout;
    }
    const Binding binding(parallel);
    Outputs found = replica.model.forward(parts[number]);
    if (found.loss_sum.requires_grad())
      torch::autograd::backward({found.loss_sum}, {at::full_like(found.loss_sum, scale)});
    for (const Tensor& parameter : replica.parameters) own_gradient(parameter);
    outputs[number] = {
        .logits = {}, .loss_sum = found.loss_sum.detach(), .token_count = found.token_count, .carried = {}};
  });

  Outputs sum = outputs.front();
  double losses = 0.0, gradients_of_losses = 0.0;
  for (size_t i = 1; i < used; ++i) {
    losses += static_cast<double>(outputs[i].loss_sum.nbytes() + outputs[i].token_count.nbytes());
    gradients_of_losses += static_cast<double>(outputs[i].loss_sum.nbytes());
    sum.loss_sum = sum.loss_sum + outputs[i].loss_sum.to(sum.loss_sum.device());
    sum.token_count = sum.token_count + outputs[i].token_count.to(sum.token_count.device());
  }
  count_collective(losses);
  count_collective(gradients_of_losses);
  return sum;
}

void ThreadReplicas::end_step() {
  const at::NoGradGuard no_grad;
  Replica& main = *replicas_.front();
  double bytes = 0.0;
  for (size_t i = 1; i < replicas_.size(); ++i)
    for (size_t p = 0; p < main.parameters.size(); ++p) {
      const Tensor& gradient = replicas_[i]->parameters[p].grad();
      if (!gradient.defined()) continue;
      bytes += static_cast<double>(gradient.nbytes());
      Tensor& sum = main.parameters[p].mutable_grad();
      const Tensor here = gradient.to(main.device);
      sum = sum.defined() ? sum.add_(here) : here;
    }
  count_collective(bytes);
}

}  // namespace modular
