// The tokenizer of a run's ids, and its location.
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

}  // namespace modular
