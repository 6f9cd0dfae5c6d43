// The loss on data that the model does not learn from.
#pragma once

#include "runtime/data/batches.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

/// The mean loss over the first `samples` samples of the source's order (0: all of them), the same on every mesh.
/// Collective.
StepResult evaluate_samples(ParallelModel& model, const BatchSource& source, int64_t samples);

/// This rank's place among the ranks that read different data.
int64_t data_parallel_rank(const Mesh& mesh);

}  // namespace modular
