// model.resize_embeddings: how many rows a run's token tables have.
#pragma once

#include "runtime/config/config.h"

namespace modular {

/// Gives config.network as many rows as model.resize_embeddings asks for, where the weights have `stored` of them:
/// those of model.config.vocab_size where that is set, or of the tokenizer's ids, and no fewer than the weights have.
/// Throws ConfigError where the settings contradict each other.
void resize_embeddings(RunConfig& config, int64_t stored);

/// Throws ConfigError where model.resize_embeddings does not say how many rows there are to be.
void check_resized(const RunConfig& config);

}  // namespace modular
