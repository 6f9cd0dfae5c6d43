// Checks of a run's config against the capabilities of its model.
#pragma once

#include <string>

#include "runtime/config/config.h"

namespace modular {

/// Throws ConfigError if the model cannot read the data that `data` and `train` describe: its vocabulary is too small
/// for bytes, or it has fewer positions than train.seq_len.
void check_reading(const RunConfig& config);

/// Throws ConfigError if the data has no targets for the model's task.
void check_targets(const RunConfig& config);

/// Throws ConfigError if the model does not generate text.
void check_sampling(const RunConfig& config);

/// Throws ConfigError if [router] sets options for experts or biases that the model does not have.
void check_router(const RunConfig& config);

/// Throws ConfigError if [sampled_softmax] asks for a loss that the model does not support, or for at least as many
/// items as it has.
void check_sampled_softmax(const RunConfig& config);

/// Throws ConfigError if parameters missing from model.checkpoint, a Hugging Face folder, would keep their initial
/// values because only adapters are trained.
void check_new_head(const RunConfig& config);

/// Throws ConfigError if optim.frozen or optim.groups names a module or parameter that the model does not have, or if
/// optim.frozen freezes everything.
void check_named_parameters(const RunConfig& config);

/// Throws ConfigError if a dropout probability of the model's config is outside of [0, 1). The layers check that too,
/// but only when they are constructed.
void check_dropout(const RunConfig& config);

struct PackingError {
  std::string key, sentence;
};

/// Error message if the documents of a row cannot be separated, because the data has no documents or the model cannot
/// mask across them. Empty if they can, or if data.pack is not set. Does not allocate the model.
PackingError packing_error(const RunConfig& config);

}  // namespace modular
