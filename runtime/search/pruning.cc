#include "runtime/search/pruning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/metrics/metrics.h"

namespace modular {

Pruning::Pruning(std::filesystem::path run, Objective objective,
                 std::function<bool(int64_t step, double value)> should_prune)
    : metrics_(std::move(run) / "metrics.jsonl"),
      objective_(std::move(objective)),
      should_prune_(std::move(should_prune)) {}

bool Pruning::check() {
  if (!reason_.empty()) return true;
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(metrics_, error);
  if (error || bytes == std::exchange(bytes_, bytes)) return false;
  const std::vector<Evaluation> evaluations = read_evaluations(metrics_);
  for (; seen_ < evaluations.size(); ++seen_) {
    const Evaluation& evaluation = evaluations[seen_];
    const auto metric = std::ranges::find(evaluation.metrics, objective_.name, &std::pair<std::string, double>::first);
    double value = NAN;
    if (objective_.name == "held_out_loss" && evaluation.targets > 0) value = evaluation.loss;
    if (metric != evaluation.metrics.end()) value = metric->second;
    if (!std::isfinite(value) || !should_prune_(evaluation.step, value)) continue;  // no backend compares NaN
    reason_ = fmt::format("pruned after step {}, with {} {:.6g}", evaluation.step, objective_.name, value);
    return true;
  }
  return false;
}

}  // namespace modular
