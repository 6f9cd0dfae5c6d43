// The outputs of entries, as their forward returns them: a loss and a count if the batch has labels, and the logits if
// it wants them.
#pragma once

#include <optional>
#include <string>

#include "runtime/model/functions.h"
#include "runtime/model/sentences.h"
#include "runtime/model/tensors.h"

namespace modular {

namespace detail {

/// Outputs whose loss is loss(logits, targets) and whose count is count(targets), with targets of the batch's labels.
template <class Targets, class Loss, class Count>
Outputs make_outputs(const Tensor& logits, const Batch& batch, Targets&& targets_of, Loss&& loss, Count&& count) {
  Outputs outputs;
  if (batch.labels.defined()) {
    const Tensor targets = targets_of(batch.labels);
    outputs.loss_sum = loss(logits, targets);
    outputs.token_count = count(targets);
  }
  if (batch.want_logits) outputs.logits = logits;
  return outputs;
}

}  // namespace detail

/// Outputs with cross_entropy() as the loss. `targets_of` maps labels to targets: next_tokens or same_labels.
/// - logits [batch, seq, vocab or labels]
inline Outputs cross_entropy_outputs(const Tensor& logits, const Batch& batch,
                                     Tensor (*targets_of)(const Tensor& labels)) {
  return detail::make_outputs(logits, batch, targets_of, cross_entropy, count_targets);
}

/// Outputs with classification_loss() as the loss; `problem` is the config's problem_type.
/// - logits [batch, labels] or [batch, seq, labels]
inline Outputs classification_outputs(const Tensor& logits, const Batch& batch,
                                      const std::optional<std::string>& problem) {
  const auto loss = [&](const Tensor& scores, const Tensor& labels) {
    return classification_loss(scores, labels, problem);
  };
  return detail::make_outputs(logits, batch, same_labels, loss, count_targets);
}

/// Outputs with sentence_loss() as the loss.
/// - embeddings [samples * texts, hidden], the texts of a sample in consecutive rows
inline Outputs sentence_outputs(const Tensor& embeddings, const Batch& batch) {
  const auto count = [&](const Tensor& labels) { return sentence_count(embeddings, labels); };
  return detail::make_outputs(embeddings, batch, same_labels, sentence_loss, count);
}

}  // namespace modular
