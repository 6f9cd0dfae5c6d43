// The loss and the metrics on data that the model does not learn from.
#pragma once

#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/data/batches.h"
#include "runtime/evaluation/metric.h"
#include "runtime/evaluation/result.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

/// The mean loss over the first `samples` samples of the source's order (0: all of them), and metrics of what the same
/// forwards predict, in the order in which they were asked for: each of each sample once, and the same on every mesh
/// but for what rounding makes of a logit; the same to the bit on all ranks. Without any target there are none. Throws
/// std::runtime_error where the loss is not finite. Collective.
Evaluation evaluate_samples(ParallelModel& model, const ModelConfig& network, const BatchSource& source,
                            int64_t samples, const std::vector<Metric>& metrics);

/// This rank's place among the ranks that read different data.
int64_t data_parallel_rank(const Mesh& mesh);

}  // namespace modular
