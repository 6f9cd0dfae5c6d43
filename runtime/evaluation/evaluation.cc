#include "runtime/evaluation/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>

#include "runtime/data/model_inputs.h"
#include "runtime/evaluation/metric.h"
#include "runtime/evaluation/row_metrics.h"
#include "runtime/mesh/collectives.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/parameters/config_integers.h"

namespace modular {
namespace {

using Of = MetricKind::Of;

/// Collects what the metrics need of the logits of this rank's batches.
class MetricInputs {
 public:
  MetricInputs(const ModelConfig& network, const std::vector<Metric>& metrics)
      : task_(*find_task(network.entry->task)), metrics_(metrics) {
    const auto any_of = [&](Of of) {
      return std::ranges::any_of(metrics, [=](const Metric& metric) { return metric.kind->of == of; });
    };
    if (any_of(Of::numbers)) numbers_.emplace();
    if (!any_of(Of::ranks) && !any_of(Of::classes)) return;
    if (task_.label_count.empty()) {
      rows_.emplace();
      return;
    }
    const int64_t classes = config_integers(*network.config).find(task_.label_count)->second;
    if (find_problem(network) == "multi_label_classification")
      labels_.emplace(classes);
    else
      classes_ = ClassCounts::zeros(classes);
  }

  bool needed() const { return rows_ || numbers_ || labels_ || classes_; }

  void add(const Batch& batch, const at::Tensor& logits) {
    const int64_t texts = batch.leading().size(0) / batch.labels.size(0);
    const at::Tensor samples =
        batch.samples.view({-1, texts}).select(1, 0);  // their positions in the sample order, counted in texts
    if (classes_) classes_->add(logits, task_.targets(batch.labels));
    if (labels_) labels_->add(logits, batch.labels.reshape({batch.labels.size(0), -1}));
    if (!task_.label_count.empty()) {
      if (numbers_) numbers_->add(logits.flatten(1), batch.labels.reshape({batch.labels.size(0), -1}), samples);
      return;
    }
    const at::Tensor embeddings = logits.unflatten(0, {-1, texts});
    if (rows_) rows_->add(embeddings, batch.labels, samples);
    if (!numbers_) return;
    if (texts != 2)
      throw std::runtime_error("pearson and spearman need two texts per sample: remove them from eval.metrics");
    const at::Tensor wide = embeddings.to(at::kDouble);
    numbers_->add(at::cosine_similarity(wide.select(1, 0), wide.select(1, 1), -1).unsqueeze(1),
                  batch.labels.unsqueeze(1), samples);
  }

  std::vector<std::pair<std::string, double>> values(double loss, const Mesh& mesh) {
    std::vector<Metric> row_metrics, number_metrics;
    for (const Metric& metric : metrics_)
      if (metric.kind->of == Of::numbers)
        number_metrics.push_back(metric);
      else if (rows_)
        row_metrics.push_back(metric);
    if (classes_) classes_->sum(mesh);
    if (labels_) labels_->sum(mesh);
    std::map<std::string, double> values;
    const auto keep = [&](const std::vector<Metric>& metrics, const std::vector<double>& found) {
      for (size_t i = 0; i < metrics.size(); ++i) values[metrics[i].name] = found[i];
    };
    if (rows_) keep(row_metrics, rows_->values(row_metrics, mesh));
    if (numbers_) keep(number_metrics, numbers_->values(number_metrics, mesh));
    std::vector<std::pair<std::string, double>> in_order;
    for (const Metric& metric : metrics_) {
      const auto found = values.find(metric.name);
      in_order.emplace_back(metric.name, found != values.end() ? found->second
                                         : labels_             ? labels_->value(metric)
                                                   : get_value(metric, classes_.value_or(ClassCounts()), loss));
    }
    return in_order;
  }

 private:
  const Task& task_;
  const std::vector<Metric>& metrics_;
  std::optional<ClassCounts> classes_;  // if the model predicts one class,
  std::optional<LabelSets> labels_;     // several labels,
  std::optional<RowRanking> rows_;      // an embedding,
  std::optional<NumberPairs> numbers_;  // a number, or the similarity of two embeddings
};

}  // namespace

Evaluation evaluate_samples(ParallelModel& model, const ModelConfig& network, const BatchSource& source,
                            int64_t samples, const std::vector<Metric>& metrics) {
  const int64_t count = samples > 0 ? std::min(samples, source.samples()) : source.samples();
  MetricInputs inputs(network, metrics);
  // Only one of the ranks that share a batch's logits counts them.
  const bool counts = model.mesh().coordinate({Axis::cp, Axis::tp}) == 0;
  const auto see = [&](const Batch& batch, const at::Tensor& logits) {
    if (counts) inputs.add(batch, logits);
  };
  Evaluation total;
  for (int64_t step = 0; step < source.steps_for(count); ++step) {
    const std::vector<Batch> batches = source.step_of_first(count, step);
    const auto result = inputs.needed() ? model.evaluate(batches, see) : model.evaluate(batches);
    total.loss += result.loss * static_cast<double>(result.target_count);
    total.targets += result.target_count;
  }
  if (total.targets > 0) total.loss /= static_cast<double>(total.targets);
  if (!std::isfinite(total.loss))
    throw std::runtime_error(
        fmt::format("the validation loss is {}: the weights or the activations are not finite; use an older checkpoint",
                    std::abs(total.loss)));  // the sign of NaN means nothing
  if (total.targets == 0) return total;      // the same on all ranks
  total.metrics = inputs.values(total.loss, model.mesh());
  // Broadcast, because decisions based on these values must be the same on all ranks, and CPUs may round differently.
  std::vector<double> values = {total.loss};
  for (const auto& [name, value] : total.metrics) values.push_back(value);
  const at::Tensor buffer = at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kDouble);
  broadcast(model.mesh().control(), buffer, /*source=*/0, "the evaluation result").wait();
  total.loss = values[0];
  for (size_t i = 0; i < total.metrics.size(); ++i) total.metrics[i].second = values[i + 1];
  return total;
}

}  // namespace modular
