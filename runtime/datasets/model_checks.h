// What a run's settings ask of its model that not every model has.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/config/config.h"

namespace modular {

/// An integer of the model's own config; nothing where that has none of this name.
std::optional<int64_t> model_count(const ModelConfig& model, std::string_view name);

/// model.config.vocab_size, or nothing where the model has none.
int64_t vocab_size(const ModelConfig& model);

/// What the model counts positions from: 0, or in RoBERTa and similar models the place after padding's.
int64_t first_position(const ModelConfig& model);

/// The most tokens that the model has positions for: a table of learned ones has an end. Nothing where there is none:
/// rotary positions go on beyond max_position_embeddings, as in transformers, and relative ones have no end.
std::optional<int64_t> longest_sequence(const ModelConfig& model);

/// What to do about rows that are longer than that.
std::string advice_on_positions(const RunConfig& config);

/// Throws ConfigError where the model cannot read what data and train say: its vocabulary has no place for bytes, or
/// its positions end before train.seq_len.
void check_reading(const RunConfig& config);

/// Throws ConfigError where the data gives the model's task nothing to learn from.
void check_targets(const RunConfig& config);

/// Throws ConfigError if the model does not continue a text.
void check_sampling(const RunConfig& config);

/// Throws ConfigError where settings of [router] are for experts or biases that the model has not.
void check_router(const RunConfig& config);

/// Throws ConfigError where [sampled_softmax] asks for a loss that the model does not have, or for as many items as it
/// has.
void check_sampled_softmax(const RunConfig& config);

/// Throws ConfigError where parameters that model.checkpoint, a Hugging Face folder, lacks would stay at their initial
/// values, as only adapters are trained.
void check_new_head(const RunConfig& config);

/// Throws ConfigError where optim.frozen or a group of optim.groups names what the model has not, or where optim.frozen
/// names all of it.
void check_named_parameters(const RunConfig& config);

/// Throws ConfigError where the model's config has a probability of dropout outside of [0, 1). The layers themselves
/// reject it too, but only when they are built.
void check_dropout(const RunConfig& config);

}  // namespace modular
