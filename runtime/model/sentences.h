// Losses over sentence embeddings. A sample is a single text, which belongs to all texts with the same label, or
// several texts: a question, its answer, and optionally hard negatives.
#pragma once

#include "runtime/model/functions.h"
#include "runtime/model/parallel.h"

namespace modular {

namespace sentences {

/// Runtime interface that supplies the training objective of embeddings and compares embeddings over a full step.
class Objective {
 public:
  virtual ~Objective() = default;
  /// Implements sentence_loss().
  virtual Tensor loss(const Tensor& embeddings, const Tensor& labels) = 0;
  /// Implements sentence_count(), for the labels of the preceding loss() call.
  virtual Tensor count(const Tensor& embeddings, const Tensor& labels) = 0;
};

}  // namespace sentences

/// Normalizes rows to length 1, in float32.
/// - rows [..., hidden]
/// - returns [..., hidden] float32
inline Tensor unit_embeddings(const Tensor& rows) {
  const Tensor wide = rows.to(at::kFloat);
  return wide / wide.norm(2, {-1}, /*keepdim=*/true).clamp_min(1e-12);
}

/// The labels of rows that share their label with another row; kIgnoredTarget for all other rows.
/// - labels [batch] int64
/// - returns [batch] int64
inline Tensor rows_with_positives(const Tensor& labels) {
  const Tensor equal = labels.unsqueeze(1).eq(labels.unsqueeze(0));
  return labels.masked_fill(equal.sum(1).lt(2), kIgnoredTarget);
}

/// Supervised contrastive loss (Khosla et al.) over cosine similarities. A row's positives are the other rows with its
/// label. The loss of a row is the mean over its positives of -log softmax(cosine / temperature) among all other
/// labeled rows; rows without positives have loss 0. With two rows per label it is the loss of SimCLR (Chen et al.).
/// - embeddings [batch, hidden]
/// - labels [batch] int64; kIgnoredTarget for rows that are not compared
/// - returns [batch] float32
inline Tensor contrastive_losses(const Tensor& embeddings, const Tensor& labels, double temperature) {
  const Tensor unit = unit_embeddings(embeddings);
  const Tensor none = at::eye(labels.size(0), labels.options().dtype(at::kBool)).logical_or(labels.eq(kIgnoredTarget));
  const Tensor scores = (unit.matmul(unit.t()) / temperature).masked_fill(none, -1e9);
  const Tensor targets = rows_with_positives(labels);
  const Tensor pairs = targets.unsqueeze(1).eq(labels.unsqueeze(0)).logical_and(none.logical_not());
  const Tensor positive = pairs.logical_and(targets.ne(kIgnoredTarget).unsqueeze(1)).to(at::kFloat);
  return -((at::log_softmax(scores, -1) * positive).sum(1) / positive.sum(1).clamp_min(1));
}

/// In-batch negatives (Henderson et al.; sentence-transformers' MultipleNegativesRankingLoss). For each sample,
/// -log softmax(scale * cosine) of its second text given its first; the candidates are all texts but the first of all
/// samples. The loss is 0 for samples that are not compared.
/// - embeddings [samples, texts, hidden], at least two texts
/// - labels [samples]; kIgnoredTarget for samples that are not compared
/// - returns [samples] float32
inline Tensor in_batch_losses(const Tensor& embeddings, const Tensor& labels, double scale) {
  const int64_t samples = embeddings.size(0), others = embeddings.size(1) - 1;
  const Tensor unit = unit_embeddings(embeddings);
  const Tensor candidates = unit.slice(1, 1).flatten(0, 1);  // [samples * others, hidden]
  const Tensor none = labels.eq(kIgnoredTarget);
  const Tensor scores =
      (unit.select(1, 0).matmul(candidates.t()) * scale).masked_fill(none.repeat_interleave(others).unsqueeze(0), -1e9);
  const Tensor own = at::arange(samples, none.options().dtype(at::kLong)).unsqueeze(1) * others;
  return -at::log_softmax(scores, -1).gather(1, own).squeeze(1).masked_fill(none, 0.0);
}

/// The training objective of sentence embeddings, summed over samples. If the run does not define it: with as many
/// labels as embeddings, contrastive_losses() at temperature 0.05, which pulls texts of one label together; with
/// several texts per sample, in_batch_losses() at scale 20, which ranks a sample's second text closest to its first.
/// - embeddings [samples * texts, hidden], the texts of a sample in consecutive rows
/// - labels [samples]
/// - returns [] float32
inline Tensor sentence_loss(const Tensor& embeddings, const Tensor& labels) {
  if (bound.sentences) return bound.sentences->loss(embeddings, labels);
  if (embeddings.size(0) == labels.size(0)) return contrastive_losses(embeddings, labels, 0.05).sum();
  return in_batch_losses(embeddings.unflatten(0, {labels.size(0), -1}), labels, 20.0).sum();
}

/// The number of samples that sentence_loss() sums over.
/// - embeddings [samples * texts, hidden]
/// - labels [samples]
/// - returns [] int64
inline Tensor sentence_count(const Tensor& embeddings, const Tensor& labels) {
  if (bound.sentences) return bound.sentences->count(embeddings, labels);
  return count_targets(embeddings.size(0) == labels.size(0) ? rows_with_positives(labels) : labels);
}

/// Input features of a classifier of text pairs: both embeddings and their absolute difference (Reimers & Gurevych,
/// Sentence-BERT; sentence-transformers' SoftmaxLoss).
/// - embeddings [samples * 2, hidden], the texts of a sample in consecutive rows
/// - returns [samples, 3 * hidden]
inline Tensor pair_features(const Tensor& embeddings) {
  const Tensor first = embeddings.slice(0, 0, std::nullopt, 2), second = embeddings.slice(0, 1, std::nullopt, 2);
  return at::cat({first, second, (first - second).abs()}, -1);
}

}  // namespace modular
