// The names of a classifier's labels, which prepared data and folders of images bring and exported models have.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/datasets/data_sets.h"

namespace modular {

/// Writes the names of the data's labels into the model's config, as transformers reads them (id2label): labels that
/// model.checkpoint names too keep the numbers that they have there. Returns what a user should know of it; may be
/// empty. Throws ConfigError where the data names more labels than the model has.
std::string name_labels(RunConfig& config, const std::vector<DataSet>& sets);

/// Of a classifier without a problem_type whose labels are floating-point numbers, sets it as transformers infers it.
/// Returns a line that says so; empty where nothing was set.
std::string infer_problem(RunConfig& config, const std::vector<DataSet>& sets);

/// Takes the names from the weights that model.checkpoint names, as a run wrote them.
void take_label_names(RunConfig& config);

}  // namespace modular
