// The evaluation of a run: of one set, or of each of several and of all together.
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

/// Evaluates the first eval.samples of what each set holds out; `validation` has a null for a set that holds out
/// nothing. Of several sets each one's loss and metrics are among the metrics, as "val_loss/NAME" and "accuracy/NAME";
/// the loss, and metrics that are means over targets, are over all sets' targets. Throws as evaluate_samples does.
/// Collective.
Evaluation evaluate_sets(ParallelModel& model, const RunConfig& config, const std::vector<DataSet>& sets,
                         const std::vector<std::unique_ptr<Samples>>& validation, const BatchShape& shape);

/// Whether the metric of several sets follows from each one's.
bool has_value_over_all_sets(const Metric& metric, const ModelConfig& network);

}  // namespace modular
