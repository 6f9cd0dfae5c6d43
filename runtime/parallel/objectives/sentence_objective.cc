#include "runtime/parallel/objectives/sentence_objective.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "runtime/mesh/collectives.h"
#include "runtime/parallel/memory/recomputed_operations.h"
#include "runtime/parallel/memory/saved_tensors.h"

namespace modular {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A loss with a precomputed gradient with respect to the embeddings.
struct KnownGradient : torch::autograd::Function<KnownGradient> {
  static Tensor forward(AutogradContext* context, const Tensor& embeddings, const Tensor& loss,
                        const Tensor& gradient) {
    context->saved_data["gradient"] = gradient;
    context->saved_data["type"] = static_cast<int64_t>(embeddings.scalar_type());
    return loss.clone();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    return {(gradients[0] * context->saved_data["gradient"].toTensor()).to(type), Tensor(), Tensor()};
  }
};

/// Reshapes the embeddings to [samples, texts, hidden].
Tensor by_sample(const Tensor& embeddings, const Tensor& labels) {
  return embeddings.unflatten(0, {labels.size(0), -1});
}

bool is_same(const Tensor& a, const Tensor& b) {
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl() &&
         a.storage_offset() == b.storage_offset();
}

}  // namespace

SentenceObjective::SentenceObjective(const SentenceOptions& options, ProcessGroup data_parallel)
    : options_(options), data_parallel_(std::move(data_parallel)) {}

const SentenceLoss& SentenceObjective::get_kind(const Tensor& embeddings, const Tensor& labels) const {
  return find_sentence_loss(options_, embeddings.size(0) / labels.size(0), labels.is_floating_point());
}

bool SentenceObjective::compares_samples(const Batch& batch) const {
  return batch.labels.defined() && get_kind(batch.leading(), batch.labels).compares_samples;
}

Tensor SentenceObjective::in_order(const Tensor& own) const {
  if (!data_parallel_) return own;
  std::vector<int64_t> shape = own.sizes().vec();
  shape.insert(shape.begin(), data_parallel_->getSize());
  const Tensor all = at::zeros(shape, own.options());
  all[data_parallel_->getRank()].copy_(own);
  all_gather(data_parallel_, {all}, "the embeddings of data-parallel ranks").wait();
  return all.transpose(0, 1).flatten(0, 1);  // the samples of a step are distributed round-robin
}

Tensor SentenceObjective::take_own(const Tensor& all) const {
  if (!data_parallel_) return all;
  return all.unflatten(0, {-1, data_parallel_->getSize()}).select(1, data_parallel_->getRank());
}

int64_t SentenceObjective::targets(std::span<const Batch> micro_batches) const {
  std::vector<Tensor> labels;
  for (const Batch& batch : micro_batches)
    if (batch.labels.defined()) labels.push_back(batch.labels.cpu());
  if (labels.empty()) return 0;
  const SentenceLoss& kind = get_kind(micro_batches.front().leading(), micro_batches.front().labels);
  const Tensor own = at::cat(labels);
  if (kind.targets == same_labels || !data_parallel_) return count_targets(kind.targets(own)).item<int64_t>();
  // In host memory, to avoid waiting for a GPU.
  const Tensor all = at::zeros({own.size(0), data_parallel_->getSize()}, at::kDouble);
  all.select(1, data_parallel_->getRank()).copy_(own);
  all_reduce(data_parallel_, all, "the labels of data-parallel ranks").wait();
  return count_targets(take_own(kind.targets(all.flatten().to(at::kLong)))).item<int64_t>();
}

void SentenceObjective::begin(bool trains) {
  parts_.clear();
  trains_ = trains;
  collects_ = settled_ = false;
}

const SentenceObjective::Part* SentenceObjective::find_part(const Tensor& labels) const {
  const auto found = std::ranges::find_if(parts_, [&](const Part& part) { return is_same(part.labels, labels); });
  return found == parts_.end() ? nullptr : &*found;
}

Tensor SentenceObjective::loss(const Tensor& embeddings, const Tensor& labels) {
  const SentenceLoss& kind = get_kind(embeddings, labels);
  const Tensor texts = by_sample(embeddings, labels);
  if (!kind.compares_samples) return kind.losses(texts.to(at::kFloat), labels, options_).sum();
  if (!settled_) parts_.push_back({.labels = labels, .embeddings = texts.detach().to(at::kFloat)});
  if (collects_) return at::zeros({}, texts.options().dtype(at::kFloat));
  if (!settled_) settle();
  const Part* const part = find_part(labels);
  TORCH_INTERNAL_ASSERT(part, "a forward has samples that were not part of the comparison");
  return trains_ ? KnownGradient::apply(embeddings, part->loss, part->gradient) : part->loss;
}

Tensor SentenceObjective::count(const Tensor& embeddings, const Tensor& labels) {
  const SentenceLoss& kind = get_kind(embeddings, labels);
  if (!kind.compares_samples) return count_targets(kind.targets(labels));
  if (collects_) return at::zeros({}, labels.options().dtype(at::kLong));
  const Part* const part = find_part(labels);
  TORCH_INTERNAL_ASSERT(part, "samples were counted before their loss was computed");
  return part->count;
}

SentenceObjective::Sums SentenceObjective::settle() {
  collects_ = false;
  settled_ = true;
  if (parts_.empty()) return {};
  // Tensors saved here are freed before the forward ends, so there is nothing to recompute or to offload.
  const InstalledSavedTensors none(nullptr);
  const WatchedOperations unwatched(nullptr);
  std::vector<Tensor> embeddings, labels;
  for (const Part& part : parts_) embeddings.push_back(part.embeddings), labels.push_back(part.labels);
  const Tensor all_labels = in_order(at::cat(labels));
  const at::AutoGradMode with_gradients(trains_);
  const Tensor all = in_order(at::cat(embeddings)).detach().requires_grad_(trains_);
  const SentenceLoss& kind = get_kind(all.flatten(0, 1), all_labels);
  const Tensor losses = kind.losses(all, all_labels, options_);
  Tensor gradient;
  if (trains_) gradient = take_own(torch::autograd::grad({losses.sum()}, {all})[0]);
  const Tensor own_losses = take_own(losses.detach()), own_targets = take_own(kind.targets(all_labels));
  int64_t first = 0;
  for (Part& part : parts_) {
    const int64_t samples = part.labels.size(0);
    const auto own = [&](const Tensor& all_own) { return all_own.narrow(0, first, samples); };
    part.loss = own(own_losses).sum();
    part.count = count_targets(own(own_targets));
    if (trains_) part.gradient = own(gradient).flatten(0, 1);
    part.embeddings.reset();
    first += samples;
  }
  if (trains_) return {};
  return {own_losses.sum(at::kDouble).item<double>(), count_targets(own_targets).item<int64_t>()};
}

}  // namespace modular
