// The evaluation of a run: of one set, or of each of several and of all together.
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

/// Evaluates the first eval.samples of what each set holds out; `held_out` has a null for a set that holds out nothing.
/// Of several sets each one's loss and metrics are among the metrics, as "held_out_loss/NAME" and "accuracy/NAME"; the
/// loss, and metrics that are means over targets, are over all sets' targets. Throws as evaluate_samples does.
/// Collective.
Evaluation evaluate_sets(ParallelModel& model, const RunConfig& config, const std::vector<DataSet>& sets,
                         const std::vector<std::unique_ptr<Samples>>& held_out, const BatchShape& shape);

}  // namespace modular
