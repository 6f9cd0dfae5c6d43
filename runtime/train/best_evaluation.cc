#include "runtime/train/best_evaluation.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "runtime/evaluation/metric.h"

namespace modular {
namespace {

constexpr const char* kKey = "best_evaluation";

}  // namespace

BestEvaluation::BestEvaluation(std::string name) : name_(std::move(name)) {
  const auto kind = std::ranges::find(metric_kinds(), name_.substr(0, name_.find('@')), &MetricKind::name);
  less_is_better_ = kind == metric_kinds().end() || kind->less_is_better;
}

bool BestEvaluation::add(const Evaluation& evaluation) {
  const auto found = std::ranges::find(evaluation.metrics, name_, &std::pair<std::string, double>::first);
  TORCH_INTERNAL_ASSERT(name_ == "loss" || found != evaluation.metrics.end(), "an evaluation without ", name_);
  if (evaluation.targets == 0) return false;
  // A perplexity may be larger than any number, whose logarithm tells it from others.
  const bool is_of_loss = found == evaluation.metrics.end() || name_ == "perplexity";
  const double value = is_of_loss ? evaluation.loss : found->second;
  const bool is_better = !step_ || (less_is_better_ ? value < value_ : value > value_);
  since_ = is_better ? 0 : since_ + 1;
  if (is_better) step_ = evaluation.step, value_ = value;
  return is_better;
}

void BestEvaluation::write(std::map<std::string, std::string>& values) const {
  if (step_) values[kKey] = fmt::format("{} {} {} {}", name_, *step_, value_, since_);
}

void BestEvaluation::read(const std::map<std::string, std::string>& values) {
  step_.reset(), value_ = 0.0, since_ = 0;
  const auto found = values.find(kKey);
  if (found == values.end() || !found->second.starts_with(name_ + " ")) return;
  const char* at = found->second.data() + name_.size();
  const char* const end = found->second.data() + found->second.size();
  const auto next = [&](auto& number) {
    if (at == end) return false;
    const auto [rest, error] = std::from_chars(at + 1, end, number);  // after a space
    at = rest;
    return error == std::errc();
  };
  int64_t step = 0, since = 0;
  double value = 0.0;
  if (!next(step) || !next(value) || !next(since)) return;
  step_ = step, value_ = value, since_ = since;
}

}  // namespace modular
