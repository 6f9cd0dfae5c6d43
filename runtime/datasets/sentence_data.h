// Losses of sentence embeddings, inferred from their examples.
#pragma once

#include <vector>

#include "runtime/checkpoint/examples.h"
#include "runtime/config/config.h"
#include "runtime/datasets/data_sets.h"

namespace modular {

/// If sentences.loss is empty and the entry embeds sentences, gives each set without a loss the one that suits its
/// examples, and sets it in the config too. Read values that depend on the loss, e.g. metrics, from the config only
/// afterwards.
void choose_sentence_loss(RunConfig& config, std::vector<DataSet>& sets);

/// Sentence options to train and evaluate a set with.
SentenceOptions to_sentence_options(const RunConfig& config, const DataSet& set);

/// Throws ConfigError if the set's examples, of either split, do not fit its loss or a metric of the config.
void check_sentence_data(const RunConfig& config, const DataSet& set, const Examples& examples);

/// Throws if a label of the set's examples is invalid for their loss. Reads all labels.
void check_label_values(const RunConfig& config, const DataSet& set, const Examples& examples);

}  // namespace modular
