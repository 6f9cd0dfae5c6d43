// The tasks that entries are trained for: the labels of each task and the targets derived from them. The entry's own
// forward computes its loss over the same targets, so that it and the runtime count alike.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "runtime/model/functions.h"

namespace modular {

/// The number of texts per sample of tasks that leave it to the data.
inline constexpr int64_t kAnyTexts = 0;

/// A row of kTasks.
struct Task {
  std::string_view name;  // as MODEL_ENTRY spells it
  enum class Reads { tokens, images, tokens_and_images } reads;
  /// Shape of the labels: [batch, seq], [batch], or [batch, target_seq].
  enum class Labels { each_token, each_row, each_target_token } labels;
  enum class Tokens { targets, masked_targets, no_targets } tokens;  // targets that plain text provides
  /// The config field that bounds integer labels from above; empty if labels are only compared with each other.
  std::string_view label_count;
  /// Maps `labels` to targets; kIgnoredTarget where there is no target.
  Tensor (*targets)(const Tensor& labels);
  /// Whether a forward can continue from the cached state of earlier tokens (cache.h): the task's output at a position
  /// depends neither on later positions nor on anything but the batch's data per token.
  bool cached = false;
  int64_t texts = 1;             // texts per sample, each a row of the batch; kAnyTexts: depends on the data
  bool samples_classes = false;  // whether its entries support losses over sampled classes
};

/// The tasks that MODEL_ENTRY may name.
inline constexpr std::array kTasks = [] {
  using enum Task::Reads;
  using enum Task::Labels;
  using enum Task::Tokens;
  return std::array{
      Task{"causal-lm", tokens, each_token, targets, "vocab_size", next_tokens, /*cached=*/true},
      Task{"masked-lm", tokens, each_token, masked_targets, "vocab_size", same_labels},
      Task{"seq2seq", tokens, each_target_token, no_targets, "vocab_size", same_labels},
      Task{"next-item", tokens, each_token, no_targets, "vocab_size", next_tokens, /*cached=*/true, /*texts=*/1,
           /*samples_classes=*/true},
      // The entry masks the items at positions that have a label.
      Task{"masked-item", tokens, each_token, no_targets, "vocab_size", same_labels, false, /*texts=*/1,
           /*samples_classes=*/true},
      Task{"sequence-classification", tokens, each_row, no_targets, "num_labels", same_labels},
      Task{"token-classification", tokens, each_token, no_targets, "num_labels", same_labels},
      // One label per sample: how its texts relate, or, with one text per sample, which rows belong together.
      Task{"sentence-embedding", tokens, each_row, no_targets, "", same_labels, /*cached=*/false, kAnyTexts},
      Task{"sentence-pair-classification", tokens, each_row, no_targets, "num_labels", same_labels, false, /*texts=*/2},
      Task{"image-classification", images, each_row, no_targets, "num_labels", same_labels},
      // A row's text belongs to its own image only: labels only mark the rows that count.
      Task{"contrastive-pairs", tokens_and_images, each_row, no_targets, "", same_labels},
      // A language model with image features in place of placeholder tokens.
      Task{"image-text-to-text", tokens_and_images, each_token, no_targets, "text_config.vocab_size", next_tokens},
  };
}();

/// The task with this name, or null.
inline const Task* find_task(std::string_view name) {
  for (const Task& task : kTasks)
    if (task.name == name) return &task;
  return nullptr;
}

/// An error message if `architecture`'s task is unknown, else empty.
inline std::string task_error(std::string_view architecture, std::string_view task) {
  if (find_task(task)) return {};
  std::string message(architecture);
  message.append(" is an entry for \"").append(task).append("\", an unknown task: write MODEL_ENTRY with one of ");
  for (const Task& known : kTasks) message.append(known.name).append(&known == &kTasks.back() ? "" : ", ");
  return message;
}

}  // namespace modular
