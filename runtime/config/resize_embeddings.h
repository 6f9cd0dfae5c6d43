// model.resize_embeddings: the number of rows of token tables.
#pragma once

#include "runtime/config/config.h"

namespace modular {

/// Grows the tables in config.network as model.resize_embeddings asks, from `stored` rows in the weights to
/// model.config.vocab_size if set, else to the tokenizer's ids, and never below `stored`. Throws ConfigError if keys
/// contradict each other.
void resize_embeddings(RunConfig& config, int64_t stored);

/// Throws ConfigError if the number of rows for model.resize_embeddings is not known.
void check_resized(const RunConfig& config);

}  // namespace modular
