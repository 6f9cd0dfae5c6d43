// What an entry can be trained on, one row a task: what its labels are and which targets they make. The entry's own
// forward takes the loss of the same targets, so that it and the runtime count alike.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "runtime/model/functions.h"

namespace modular {

/// Of tasks whose samples have as many texts as their data has.
inline constexpr int64_t kAnyTexts = 0;

/// A row of kTasks.
struct Task {
  std::string_view name;  // as MODEL_ENTRY spells it
  enum class Reads { tokens, images, tokens_and_images } reads;
  /// Labels are [batch, seq], [batch], or [batch, target_seq].
  enum class Labels { each_token, each_row, each_target_token } labels;
  enum class Tokens { targets, masked_targets, no_targets } tokens;  // what running text gives to train on
  /// The integer of the config that labels stay below; empty where they are only compared with one another.
  std::string_view label_count;
  /// The targets that `labels` make: kIgnoredTarget where there is none.
  Tensor (*targets)(const Tensor& labels);
  /// Whether a forward can continue from what another kept of the tokens before (cache.h): what an entry for the task
  /// says of a position depends on nothing after it, and on nothing but what the batch holds for each token.
  bool cached = false;
  int64_t texts = 1;             // that a sample has, each a row of a batch; kAnyTexts: as many as its data has
  bool samples_classes = false;  // whether its entries take their loss over a sample of classes where asked to
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
      // An entry does not see the items at positions that have a label.
      Task{"masked-item", tokens, each_token, no_targets, "vocab_size", same_labels, false, /*texts=*/1,
           /*samples_classes=*/true},
      Task{"sequence-classification", tokens, each_row, no_targets, "num_labels", same_labels},
      Task{"token-classification", tokens, each_token, no_targets, "num_labels", same_labels},
      // Labels are one a sample: how its texts relate, or without further texts which rows belong together.
      Task{"sentence-embedding", tokens, each_row, no_targets, "", same_labels, /*cached=*/false, kAnyTexts},
      Task{"sentence-pair-classification", tokens, each_row, no_targets, "num_labels", same_labels, false, /*texts=*/2},
      Task{"image-classification", images, each_row, no_targets, "num_labels", same_labels},
      // A row's text belongs to its image and to no other row's: labels only say which rows count.
      Task{"contrastive-pairs", tokens_and_images, each_row, no_targets, "", same_labels},
      // A language model that sees images where the tokens have placeholders.
      Task{"image-text-to-text", tokens_and_images, each_token, no_targets, "text_config.vocab_size", next_tokens},
  };
}();

/// The task of that name, or null.
inline const Task* find_task(std::string_view name) {
  for (const Task& task : kTasks)
    if (task.name == name) return &task;
  return nullptr;
}

/// Says that `architecture`'s task is not known, or nothing.
inline std::string task_error(std::string_view architecture, std::string_view task) {
  if (find_task(task)) return {};
  std::string sentence(architecture);
  sentence.append(" is an entry for \"")
      .append(task)
      .append("\", a task that is not known: write MODEL_ENTRY with one of ");
  for (const Task& known : kTasks) sentence.append(known.name).append(&known == &kTasks.back() ? "" : ", ");
  return sentence;
}

}  // namespace modular
