#include "runtime/train/validation.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/datasets/sentence_data.h"
#include "runtime/evaluation/evaluation.h"
#include "runtime/model/tasks.h"

namespace modular {

Evaluation evaluate_sets(ParallelModel& model, const RunConfig& config, const std::vector<DataSet>& sets,
                         const std::vector<std::unique_ptr<Samples>>& held_out, const BatchShape& shape) {
  const std::vector<Metric> metrics = config.eval_metrics();
  const auto evaluate = [&](size_t set) {
    const BatchSource source(*held_out[set], shape, /*seed=*/0);
    model.train_for(to_sentence_options(config, sets[set]));
    return evaluate_samples(model, config.network, source, config.eval.samples, metrics);
  };
  if (sets.size() == 1) return evaluate(0);

  Evaluation all;
  std::vector<double> sums(metrics.size(), 0.0);
  std::vector<std::pair<std::string, double>> of_sets;
  for (size_t set = 0; set < sets.size(); ++set) {
    if (!held_out[set]) continue;
    const Evaluation one = evaluate(set);
    const auto targets = static_cast<double>(one.targets);
    all.targets += one.targets;
    all.loss += one.loss * targets;
    if (one.targets == 0) continue;
    of_sets.emplace_back(fmt::format("held_out_loss/{}", sets[set].name), one.loss);
    for (size_t i = 0; i < metrics.size(); ++i) {
      sums[i] += one.metrics[i].second * targets;
      of_sets.emplace_back(fmt::format("{}/{}", metrics[i].name, sets[set].name), one.metrics[i].second);
    }
  }
  if (all.targets == 0) return all;
  const auto targets = static_cast<double>(all.targets);
  all.loss /= targets;
  for (size_t i = 0; i < metrics.size(); ++i)
    if (has_value_over_all_sets(metrics[i], config.network))
      all.metrics.emplace_back(metrics[i].name, metrics[i].kind->of == MetricKind::Of::loss
                                                    ? get_value(metrics[i], ClassCounts(), all.loss)
                                                    : sums[i] / targets);
  all.metrics.insert(all.metrics.end(), of_sets.begin(), of_sets.end());
  return all;
}

}  // namespace modular
