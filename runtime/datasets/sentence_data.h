// What the examples of sentences say of their loss.
#pragma once

#include <vector>

#include "runtime/checkpoint/examples.h"
#include "runtime/config/config.h"
#include "runtime/datasets/data_sets.h"

namespace modular {

/// Where sentences.loss is empty and the entry embeds sentences, gives each set without a loss the one that suits its
/// examples, in the config too. What follows from the setting, metrics above all, is asked of the config afterwards.
void choose_sentence_loss(RunConfig& config, std::vector<DataSet>& sets);

/// What a set's sentences are trained and judged for.
SentenceOptions to_sentence_options(const RunConfig& config, const DataSet& set);

/// Throws ConfigError where the set's examples, learned from or held out, are not what its loss or a
/// metric of the config compares.
void check_sentence_data(const RunConfig& config, const DataSet& set, const Examples& examples);

/// Throws where a label of the set's examples is none that their loss knows. Reads all labels.
void check_label_values(const RunConfig& config, const DataSet& set, const Examples& examples);

}  // namespace modular
