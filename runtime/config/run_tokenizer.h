// The tokenizer of a run's ids: its location, and the rows that token tables need for its ids.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/config/config.h"

namespace modular {

/// The folder of model.tokenizer, else of the data's folder, else of model.checkpoint. Empty if there is none, and for
/// bytes unless model.tokenizer is set. Throws ConfigError if model.tokenizer is set and neither it nor the run's copy
/// has tokenizer files.
std::filesystem::path tokenizer_of_run(const RunConfig& config);

/// The same for a trained model: the weights' tokenizer takes precedence over the data's.
std::filesystem::path tokenizer_of_trained(const RunConfig& config);

/// One past the largest id of tokenizer_of_run, or of bytes; 0 if unknown.
int64_t vocabulary_of_run(const RunConfig& config);

/// Throws ConfigError if the tokenizer of model.tokenizer or of the data has ids beyond the model's vocabulary.
void check_tokenizer(const RunConfig& config);

/// Copies the run's tokenizer into its folder. A `resumed` run keeps its copy.
void keep_tokenizer(const RunConfig& config, bool resumed);

/// Grows the tables in config.network as model.resize_embeddings asks, from `stored` rows in the weights to
/// model.config.vocab_size if set, else to the tokenizer's ids, and never below `stored`. Throws ConfigError if keys
/// contradict each other.
void resize_embeddings(RunConfig& config, int64_t stored);

/// Throws ConfigError if the number of rows for model.resize_embeddings is not known.
void check_resized(const RunConfig& config);

}  // namespace modular
