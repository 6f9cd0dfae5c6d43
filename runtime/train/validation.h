// Evaluation of a run on one set, or on each of several sets and all together.
#pragma once

#include <memory>
#include <vector>

#include "runtime/data/batches.h"
#include "runtime/data/samples.h"
#include "runtime/evaluation/metric.h"
#include "runtime/evaluation/result.h"
#include "runtime/parallel/parallel_model.h"
#include "runtime/train/config.h"
#include "runtime/train/data_sets.h"

namespace modular {

/// Evaluates the first eval.samples validation samples of each set; `validation` is null for a set without validation
/// data. For several sets, the metrics include the loss and the metrics of each set, as "val_loss/NAME" and
/// "accuracy/NAME"; the loss, and metrics that are means over targets, are over the targets of all sets. Throws as
/// evaluate_samples does. Collective.
Evaluation evaluate_sets(ParallelModel& model, const RunConfig& config, const std::vector<DataSet>& sets,
                         const std::vector<std::unique_ptr<Samples>>& validation, const BatchShape& shape);

/// Whether the metric over several sets can be derived from the metric of each set.
bool has_value_over_all_sets(const Metric& metric, const ModelConfig& network);

}  // namespace modular
