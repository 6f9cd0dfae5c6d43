#include "runtime/parallel/objectives/sentence_losses.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/model/sentences.h"

namespace modular {
namespace {

using Labels = SentenceLoss::Labels;
using at::Tensor;

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

}  // namespace modular
