// Label names of classifiers, which come from prepared data or image folders and go into exported models.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/datasets/data_sets.h"

namespace modular {

/// Writes the names of the data's labels into the model's config as transformers reads them (id2label). Labels that
/// model.checkpoint names too keep their ids. Returns a note for the user, possibly empty. Throws ConfigError if the
/// data names more labels than the model has.
std::string name_labels(RunConfig& config, const std::vector<DataSet>& sets);

/// If a classifier has no problem_type and its labels are floating-point, sets it as transformers infers it. Returns a
/// note that says so; empty if nothing was set.
std::string infer_problem(RunConfig& config, const std::vector<DataSet>& sets);

/// Takes the names from the weights in model.checkpoint, as a run wrote them.
void take_label_names(RunConfig& config);

}  // namespace modular
