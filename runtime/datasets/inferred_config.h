// Options of a run that follow from its data: names of labels, the problem type of a classifier, and losses of sentence
// embeddings.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/data/examples.h"
#include "runtime/datasets/run_datasets.h"

namespace modular {

/// Writes the names of the data's labels into the model's config as transformers reads them (id2label). Labels that
/// model.checkpoint names too keep their ids. Returns a note for the user, possibly empty. Throws ConfigError if the
/// data names more labels than the model has.
std::string name_labels(RunConfig& config, const std::vector<RunDataset>& sets);

/// If a classifier has no problem_type and its labels are floating-point, sets it as transformers infers it. Returns a
/// note that says so; empty if nothing was set.
std::string infer_problem(RunConfig& config, const std::vector<RunDataset>& sets);

/// Takes the names from the weights in model.checkpoint, as a run wrote them.
void take_label_names(RunConfig& config);

/// Whether choose_sentence_loss() chooses one.
bool needs_sentence_loss(const RunConfig& config);

/// If sentences.loss is empty and the entry embeds sentences, gives each set without a loss the one that suits its
/// opened examples, and sets it in the config too. Read values that depend on the loss, e.g. metrics, from the config
/// only afterwards.
void choose_sentence_loss(RunConfig& config, std::vector<RunDataset>& sets);

/// Sentence options to train and evaluate a set with.
SentenceOptions to_sentence_options(const SentencesSection& sentences, const RunDataset& set);

/// Throws ConfigError if the set's opened examples, of either split, do not fit its loss or a metric of the config.
void check_sentence_data(const RunConfig& config, const RunDataset& set);

/// Throws if a label of the set's examples is invalid for their loss. Reads all labels.
void check_label_values(const RunConfig& config, const RunDataset& set, const Examples& examples);

}  // namespace modular
