#include "runtime/train/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/checkpoint/json_text.h"
#include "runtime/datasets/inferred_config.h"
#include "runtime/evaluation/evaluation.h"
#include "runtime/evaluation/metric.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

constexpr const char* kKey = "best_evaluation";

}  // namespace

BestEvaluation::BestEvaluation(std::string name)
    : name_(std::move(name)), less_is_better_(name_ == "loss" || less_is_better(name_)) {}

bool BestEvaluation::add(const Evaluation& evaluation) {
  const auto found = std::ranges::find(evaluation.metrics, name_, &std::pair<std::string, double>::first);
  // A data set may have no targets, and hence no metrics.
  if (evaluation.targets == 0 || (name_ != "loss" && found == evaluation.metrics.end())) return false;
  // A perplexity may overflow; its logarithm still compares.
  const bool is_of_loss = found == evaluation.metrics.end() || name_ == "perplexity";
  const double value = is_of_loss ? evaluation.loss : found->second;
  const bool is_better = !step_ || (less_is_better_ ? value < value_ : value > value_);
  since_ = is_better ? 0 : since_ + 1;
  if (is_better) step_ = evaluation.step, value_ = value;
  return is_better;
}

void BestEvaluation::write(std::map<std::string, std::string>& values) const {
  if (step_)
    values[kKey] = nlohmann::json{{"name", name_}, {"step", *step_}, {"value", value_}, {"since", since_}}.dump();
}

void BestEvaluation::read(const std::map<std::string, std::string>& values) {
  step_.reset(), value_ = 0.0, since_ = 0;
  const auto found = values.find(kKey);
  const nlohmann::json json = found == values.end() ? nlohmann::json() : parse_json(found->second);
  if (!json.is_object() || json.value("name", nlohmann::json()) != name_) return;
  const nlohmann::json step = json.value("step", nlohmann::json()), value = json.value("value", nlohmann::json()),
                       since = json.value("since", nlohmann::json());
  if (!step.is_number_integer() || !value.is_number() || !since.is_number_integer()) return;
  step_ = step.get<int64_t>(), value_ = value.get<double>(), since_ = since.get<int64_t>();
}

Evaluation evaluate_sets(ParallelModel& model, const RunConfig& config, const std::vector<RunDataset>& sets,
                         const BatchShape& shape) {
  const std::vector<Metric> metrics = config.eval_metrics();
  const auto evaluate = [&](size_t set) {
    const BatchSource source(*sets[set].validation, shape, /*seed=*/0);
    model.train_for(to_sentence_options(config.sentences, sets[set]));
    return evaluate_samples(model, config.network, source, config.eval.samples, metrics);
  };
  if (sets.size() == 1) return evaluate(0);

  Evaluation all;
  std::vector<double> sums(metrics.size(), 0.0);
  std::vector<std::pair<std::string, double>> of_sets;
  for (size_t set = 0; set < sets.size(); ++set) {
    if (!sets[set].validation) continue;
    const Evaluation one = evaluate(set);
    const auto targets = static_cast<double>(one.targets);
    all.targets += one.targets;
    all.loss += one.loss * targets;
    if (one.targets == 0) continue;
    of_sets.emplace_back(fmt::format("val_loss/{}", sets[set].name), one.loss);
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
