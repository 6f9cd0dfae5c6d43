#include "runtime/evaluation/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "runtime/evaluation/row_ranking.h"
#include "runtime/mesh/collectives.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/config_integers.h"

namespace modular {
namespace {

using Of = MetricKind::Of;

/// What the metrics need of the logits, of this rank's batches.
class Predictions {
 public:
  Predictions(const ModelConfig& network, const std::vector<Metric>& metrics)
      : task_(*find_task(network.entry->task)), metrics_(metrics) {
    const bool needed = std::ranges::any_of(metrics, [](const Metric& metric) { return metric.kind->of != Of::loss; });
    if (!needed) return;
    if (task_.label_count.empty())
      rows_.emplace();
    else
      classes_ = ClassCounts::of(config_integers(*network.config).find(task_.label_count)->second);
  }

  bool needed() const { return rows_ || classes_; }

  void add(const Batch& batch, const at::Tensor& logits) {
    if (rows_)
      rows_->add(logits, batch.labels, batch.samples);
    else
      classes_->add(logits, task_.targets(batch.labels));
  }

  std::vector<std::pair<std::string, double>> values(double loss, const Mesh& mesh) {
    std::vector<std::pair<std::string, double>> values;
    if (classes_) classes_->sum(mesh);
    const std::vector<double> of_rows = rows_ ? rows_->values(metrics_, mesh) : std::vector<double>();
    for (size_t i = 0; i < metrics_.size(); ++i)
      values.emplace_back(metrics_[i].name,
                          rows_ ? of_rows[i] : value_of(metrics_[i], classes_.value_or(ClassCounts()), loss));
    return values;
  }

 private:
  const Task& task_;
  const std::vector<Metric>& metrics_;
  std::optional<ClassCounts> classes_;  // where what is predicted is a class
  std::optional<RowRanking> rows_;      // where it is an embedding
};

}  // namespace

Evaluation evaluate_samples(ParallelModel& model, const ModelConfig& network, const BatchSource& source,
                            int64_t samples, const std::vector<Metric>& metrics) {
  const int64_t count = samples > 0 ? std::min(samples, source.samples()) : source.samples();
  Predictions predictions(network, metrics);
  // Of the ranks that have a batch's logits one counts them.
  const bool counts = model.mesh().coordinate(Axis::tp) == 0;
  const auto see = [&](const Batch& batch, const at::Tensor& logits) {
    if (counts) predictions.add(batch, logits);
  };
  Evaluation total;
  for (int64_t step = 0; step < source.steps_of(count); ++step) {
    const std::vector<Batch> batches = source.step_of_first(count, step);
    const auto result = predictions.needed() ? model.evaluate(batches, see) : model.evaluate(batches);
    total.loss += result.loss * static_cast<double>(result.target_count);
    total.targets += result.target_count;
  }
  if (total.targets > 0) total.loss /= static_cast<double>(total.targets);
  if (!std::isfinite(total.loss))
    throw std::runtime_error(
        fmt::format("the loss on held-out files is {}: the weights, or what they compute, are no "
                    "finite numbers; use an older checkpoint",
                    std::abs(total.loss)));  // whose sign says nothing
  total.metrics = predictions.values(total.loss, model.mesh());
  // What follows from them is to be the same on all ranks, whose processors may round otherwise.
  std::vector<double> values = {total.loss};
  for (const auto& [name, value] : total.metrics) values.push_back(value);
  const at::Tensor of_first = at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kDouble);
  broadcast(model.mesh().control(), of_first, /*source=*/0, "the result of an evaluation").wait();
  total.loss = values[0];
  for (size_t i = 0; i < total.metrics.size(); ++i) total.metrics[i].second = values[i + 1];
  return total;
}

int64_t data_parallel_rank(const Mesh& mesh) {
  return mesh.coordinate(Axis::dp_replicate) * mesh.size(Axis::dp_shard) + mesh.coordinate(Axis::dp_shard);
}

}  // namespace modular
