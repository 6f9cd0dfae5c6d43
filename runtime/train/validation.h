// Evaluation of a run on its sets, and the best evaluation so far.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/data/batches.h"
#include "runtime/datasets/run_datasets.h"
#include "runtime/evaluation/evaluation.h"
#include "runtime/evaluation/metric.h"
#include "runtime/metrics/metrics.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

class BestEvaluation {
 public:
  /// Compares by the metric `name`, or by "loss". Of losses and perplexities, lower is better.
  explicit BestEvaluation(std::string name);

  /// Adds the next evaluation. Returns whether it is better than all previous ones.
  bool add(const Evaluation& evaluation);

  const std::string& name() const { return name_; }
  /// Step of the best evaluation; nullopt before the first evaluation.
  std::optional<int64_t> step() const { return step_; }
  double value() const { return value_; }
  /// Number of evaluations after the best.
  int64_t since() const { return since_; }

  /// State to save in a checkpoint and to restore from one. Fields that are missing, or belong to another metric, are
  /// reset.
  void write(std::map<std::string, std::string>& values) const;
  void read(const std::map<std::string, std::string>& values);

 private:
  std::string name_;
  bool less_is_better_;
  std::optional<int64_t> step_;
  double value_ = 0.0;
  int64_t since_ = 0;
};

/// Evaluates the first eval.samples validation samples of each set; `validation` is null for a set without validation
/// data. For several sets, the metrics include the loss and the metrics of each set, as "val_loss/NAME" and
/// "accuracy/NAME"; the loss, and metrics that are means over targets, are over the targets of all sets. Throws as
/// evaluate_samples does. Collective.
Evaluation evaluate_sets(ParallelModel& model, const RunConfig& config, const std::vector<RunDataset>& sets,
                         const BatchShape& shape);

}  // namespace modular
