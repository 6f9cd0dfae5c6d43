// What the examples of sentences say of their loss.
#pragma once

#include <vector>

#include "runtime/checkpoint/examples.h"
#include "runtime/train/config.h"
#include "runtime/train/data_sets.h"

namespace modular {

/// Sets sentences.loss, where it is empty and the entry embeds sentences, to the one that suits the first set's
/// examples. What follows from the setting, metrics above all, is asked of the config afterwards.
void choose_sentence_loss(RunConfig& config, const std::vector<DataSet>& sets);

/// Throws ConfigError in one sentence where the examples, learned from or held out, are not what the loss or a metric
/// of the config compares.
void check_sentence_data(const RunConfig& config, const Examples& examples);

/// Throws where a label of the examples is none that their loss knows. Reads all labels.
void check_label_values(const RunConfig& config, const Examples& examples);

}  // namespace modular
