// The loss and the metrics on the validation set.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/data/batches.h"
#include "runtime/evaluation/metric.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

// Results of evaluating a model on the validation set.

struct Evaluation {
  int64_t step = 0;                                          // the training step after which it was computed
  double loss = 0.0;                                         // nats/target; 0 if there are no targets
  int64_t targets = 0;                                       // number of targets
  std::vector<std::pair<std::string, double>> metrics = {};  // eval.metrics, e.g. {"accuracy", 0.91}
};

/// The mean loss over the first `samples` samples of the source's order (0: all of them), and the requested metrics, in
/// order, of the same forwards' predictions. Each sample counts once. Results are the same on every mesh up to rounding
/// of logits, and bit-identical on all ranks. Without any target there are no metrics. Throws std::runtime_error if the
/// loss is not finite. Collective.
Evaluation evaluate_samples(ParallelModel& model, const ModelConfig& network, const BatchSource& source,
                            int64_t samples, const std::vector<Metric>& metrics);

}  // namespace modular
