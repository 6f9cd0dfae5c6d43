#include "runtime/parallel/objectives/sentence_objective.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "runtime/mesh/collectives.h"
#include "runtime/model/parallel.h"
#include "runtime/parallel/memory/saved_tensors.h"

namespace modular {
namespace {

using Labels = SentenceLoss::Labels;

Tensor text(const Tensor& embeddings, int64_t number) { return embeddings.select(1, number); }

/// Returns 1 - cosine, or the Euclidean distance, of each row: [samples].
Tensor distance(const Tensor& a, const Tensor& b, std::string_view kind) {
  return kind == "cosine" ? 1.0 - at::cosine_similarity(a, b, -1) : at::pairwise_distance(a, b);
}

std::string_view distance_or(const SentenceOptions& options, std::string_view usual) {
  return options.distance.empty() ? usual : std::string_view(options.distance);
}

Tensor mask_ignored(const Tensor& losses, const Tensor& labels) {
  return losses.masked_fill(labels.eq(kIgnoredTarget), 0.0);
}

Tensor supervised(const Tensor& embeddings, const Tensor& labels, const SentenceOptions& options) {
  return contrastive_losses(text(embeddings, 0), labels, 1.0 / options.scale);
}

Tensor in_batch(const Tensor& embeddings, const Tensor& labels, const SentenceOptions& options) {
  return in_batch_losses(embeddings, labels, options.scale);
}

/// Hadsell et al.
Tensor contrastive(const Tensor& embeddings, const Tensor& labels, const SentenceOptions& options) {
  const Tensor far = distance(text(embeddings, 0), text(embeddings, 1), distance_or(options, "cosine"));
  const Tensor alike = labels.to(at::kFloat), near = (options.margin.value_or(0.5) - far).relu();
  return mask_ignored((alike * far.square() + (1.0 - alike) * near.square()) / 2.0, labels);
}

Tensor cosine(const Tensor& embeddings, const Tensor& labels, const SentenceOptions&) {
  const Tensor cosines = at::cosine_similarity(text(embeddings, 0), text(embeddings, 1), -1);
  return mask_ignored((cosines - labels.to(at::kFloat)).square(), labels);
}

/// Schroff et al.
Tensor triplet(const Tensor& embeddings, const Tensor& labels, const SentenceOptions& options) {
  const std::string_view kind = distance_or(options, "euclidean");
  const Tensor near = distance(text(embeddings, 0), text(embeddings, 1), kind);
  const Tensor far = distance(text(embeddings, 0), text(embeddings, 2), kind);
  return mask_ignored((near - far + options.margin.value_or(5.0)).relu(), labels);
}

constexpr int64_t kAny = INT64_MAX;

const SentenceLoss* find(std::string_view name) {
  const auto found = std::ranges::find(sentence_losses(), name, &SentenceLoss::name);
  return found == sentence_losses().end() ? nullptr : &*found;
}

std::string count_texts(const SentenceLoss& loss) {
  if (loss.least_texts != loss.most_texts) return fmt::format("at least {} texts", loss.least_texts);
  return loss.least_texts == 1 ? "one text" : fmt::format("{} texts", loss.least_texts);
}

}  // namespace

const std::vector<SentenceLoss>& sentence_losses() {
  static const std::vector<SentenceLoss> losses = {
      {"supervised", 1, 1, Labels::groups, true, supervised, rows_with_positives},
      {"in-batch", 2, kAny, Labels::none, true, in_batch, same_labels},
      {"contrastive", 2, 2, Labels::alike, false, contrastive, same_labels},
      {"cosine", 2, 2, Labels::scores, false, cosine, same_labels},
      {"triplet", 3, 3, Labels::none, false, triplet, same_labels},
  };
  return losses;
}

const SentenceLoss& find_sentence_loss(const SentenceOptions& options, int64_t texts, bool labels_are_numbers) {
  if (const SentenceLoss* const named = find(options.loss)) return *named;
  return *find(texts == 1 ? "supervised" : labels_are_numbers ? "cosine" : "in-batch");
}

std::string sentence_error(const SentenceOptions& options, int64_t texts, bool has_labels, bool labels_are_numbers,
                           const std::string& key) {
  const SentenceLoss& loss = find_sentence_loss(options, texts, labels_are_numbers);
  const std::string it = fmt::format("{} is \"{}\"", key, loss.name);
  if (texts < loss.least_texts || texts > loss.most_texts)
    return fmt::format(
        "{}, which compares {} of a sample, but the examples have {}: write input_ids as [rows, texts, seq]", it,
        count_texts(loss), texts);
  if (!has_labels && loss.labels != Labels::none)
    return fmt::format("{}, but the examples have no \"labels\": write {}", it,
                       loss.labels == Labels::groups  ? "one label for rows that belong together"
                       : loss.labels == Labels::alike ? "1 for texts that belong together, and 0 for others"
                                                      : "the similarity of the two texts, from -1 to 1");
  if (labels_are_numbers && (loss.labels == Labels::none || loss.labels == Labels::groups))
    return fmt::format(
        "{}, but the \"labels\" of the examples are floating-point numbers: write integers, or set {} to \"cosine\"",
        it, key);
  return {};
}

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
  collects_ = compared_ = false;
}

void SentenceObjective::begin_step(TrainingStep& step) {
  step.counts.front() = static_cast<double>(targets(step.micro_batches));
}

void SentenceObjective::before_forwards(const TrainingStep& step) {
  begin(/*trains=*/true);
  const Batch& first = step.micro_batches.front();
  const bool compares = first.labels.defined() && get_kind(first.leading(), first.labels).compares_samples;
  if (!compares || step.is_one_forward) return;
  const at::NoGradGuard no_grad;
  Parallel parallel = bound;
  parallel.routing = nullptr;  // routers count choices in forwards of their own
  const Binding binding(parallel);
  collects_ = true;
  step.run_forwards();
  compare();
}

void SentenceObjective::begin_evaluation() {
  begin(/*trains=*/false);
  collects_ = true;
}

void SentenceObjective::end_evaluation(double& loss_sum, double& target_count) {
  const Sums compared = compare();
  loss_sum += compared.loss;
  target_count += static_cast<double>(compared.count);
}

const SentenceObjective::Part* SentenceObjective::find_part(const Tensor& labels) const {
  const auto found = std::ranges::find_if(parts_, [&](const Part& part) { return is_same(part.labels, labels); });
  return found == parts_.end() ? nullptr : &*found;
}

Tensor SentenceObjective::loss(const Tensor& embeddings, const Tensor& labels) {
  const SentenceLoss& kind = get_kind(embeddings, labels);
  const Tensor texts = by_sample(embeddings, labels);
  if (!kind.compares_samples) return kind.losses(texts.to(at::kFloat), labels, options_).sum();
  if (!compared_) parts_.push_back({.labels = labels, .embeddings = texts.detach().to(at::kFloat)});
  if (collects_) return at::zeros({}, texts.options().dtype(at::kFloat));
  if (!compared_) compare();
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

SentenceObjective::Sums SentenceObjective::compare() {
  collects_ = false;
  compared_ = true;
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
