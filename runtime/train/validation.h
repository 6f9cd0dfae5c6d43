// Evaluation of a run on one set, or on each of several sets and all together.
#pragma once

#include <memory>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/data/batches.h"
#include "runtime/data/samples.h"
#include "runtime/datasets/data_sets.h"
#include "runtime/evaluation/metric.h"
#include "runtime/evaluation/result.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

/// Evaluates the first eval.samples validation samples of each set; `validation` is null for a set without validation
/// data. For several sets, the metrics include the loss and the metrics of each set, as "val_loss/NAME" and
/// "accuracy/NAME"; the loss, and metrics that are means over targets, are over the targets of all sets. Throws as
/// evaluate_samples does. Collective.
Evaluation evaluate_sets(ParallelModel& model, const RunConfig& config, const std::vector<DataSet>& sets,
                         const std::vector<std::unique_ptr<Samples>>& validation, const BatchShape& shape);

}  // namespace modular
