// Inputs of a model: its vocabulary and positions, and the labels of its task.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/checkpoint/model_config.h"
#include "runtime/model/tensors.h"

namespace modular {

struct Task;

/// An integer of the model's config by name; nullopt if there is none.
std::optional<int64_t> model_count(const ModelConfig& model, std::string_view name);

/// model.config.vocab_size; the largest int64_t if the model has none.
int64_t vocab_size(const ModelConfig& model);

/// First position id: 0, or in RoBERTa and similar models the padding id plus 1.
int64_t first_position(const ModelConfig& model);

/// Maximum number of positions of a model with a learned position table. Nullopt otherwise: rotary positions extend
/// beyond max_position_embeddings, as in transformers, and relative positions are unbounded.
std::optional<int64_t> longest_sequence(const ModelConfig& model);

/// Advice for rows that exceed that maximum. `has_checkpoint`: whether the model starts from weights.
std::string advice_on_positions(const ModelConfig& model, bool has_checkpoint);

/// The task of the model's entry. Throws std::runtime_error if it is unknown.
const Task& get_task(const ModelConfig& model);

/// Whether a task's samples are sessions: items with their features.
bool is_of_sessions(const Task& task);

/// Adds an attention_mask, which separates items from padding (id 0), if the entry attends along full sessions and the
/// batch has none.
void add_item_mask(const Task& task, Batch& batch);

/// Whether labels follow from the other tensors of a sample of `texts` texts.
bool makes_labels(const Task& task, int64_t texts);

/// Labels that follow from the batch itself, for tasks that define such labels: the next token or item, or the items
/// themselves of sessions; for samples of several texts, labels that make each sample count.
at::Tensor made_labels(const Task& task, const Batch& batch, int64_t texts);

/// Problem type of a classifier of rows: transformers' problem_type. If it is not given, "regression" for one label,
/// and "multi_label_classification" for several labels with floating-point data, as transformers infers it. Empty for
/// single-label classification and for entries that are not such classifiers.
std::string find_problem(const ModelConfig& model, bool real_labels = false);

}  // namespace modular
