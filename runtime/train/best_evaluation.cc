#include "runtime/train/best_evaluation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/checkpoint/json_text.h"
#include "runtime/evaluation/metric.h"

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

}  // namespace modular
