// Which tokenizer a run's ids are of, and where it is kept.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/config/config.h"

namespace modular {

/// The folder of model.tokenizer, else of the data's folder, else of model.checkpoint; empty where there is none, and
/// for bytes, unless model.tokenizer names one. Throws ConfigError where that is named and has none, and the run's
/// folder has no copy of it either.
std::filesystem::path tokenizer_of_run(const RunConfig& config);

/// The same for a model that is trained: the tokenizer of its weights before that of the data.
std::filesystem::path tokenizer_of_trained(const RunConfig& config);

/// One more than the largest id of tokenizer_of_run, or of bytes; 0 where neither is known.
int64_t vocabulary_of_run(const RunConfig& config);

/// Throws ConfigError where the tokenizer of model.tokenizer or of the data has ids that the model has not.
void check_tokenizer(const RunConfig& config);

/// Copies the run's tokenizer into its folder; a run that goes on (`resumed`) keeps the copy that it has.
void keep_tokenizer(const RunConfig& config, bool resumed);

}  // namespace modular
