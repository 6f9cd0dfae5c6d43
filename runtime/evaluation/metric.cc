#include "runtime/evaluation/metric.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "runtime/checkpoint/examples.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

using Of = MetricKind::Of;

constexpr std::string_view kRegression = "regression", kSeveralLabels = "multi_label_classification";

/// The entry for a metric's name, with or without a cutoff; end() if there is none.
auto get_kind(std::string_view name) {
  return std::ranges::find(metric_kinds(), name.substr(0, name.find('@')), &MetricKind::name);
}

/// Whether the task compares rows with each other, not with classes.
bool compares_rows(const Task& task) { return task.label_count.empty(); }

/// Whether the task's loss is per token.
bool predicts_tokens(const Task& task) { return task.label_count.ends_with("vocab_size") && !is_of_sessions(task); }

bool suits(const MetricKind& kind, const Task& task, std::string_view problem) {
  if (task.name == "contrastive-pairs") return false;  // rows are only compared within a batch
  if (kind.of == Of::numbers) return task.texts == kAnyTexts || problem == kRegression;
  if (problem == kRegression) return false;
  if (problem == kSeveralLabels) return kind.name == "accuracy" || kind.name == "f1";
  if (kind.of == Of::loss) return predicts_tokens(task);
  if (kind.of == Of::classes) return !compares_rows(task);
  return !compares_rows(task) || kind.takes_cutoff;
}

[[noreturn]] void reject(const std::string& name, std::string_view why) {
  throw std::invalid_argument(fmt::format("\"{}\" {}", name, why));
}

/// sklearn.metrics.f1_score: for class 1 if there are two classes, else the mean over the classes that occur.
double f1(const ClassCounts& counts) {
  const auto predicted = counts.predicted.accessor<int64_t, 1>(), actual = counts.actual.accessor<int64_t, 1>(),
             correct = counts.correct.accessor<int64_t, 1>();
  const auto score_class = [&](int64_t c) {
    const int64_t both = predicted[c] + actual[c];
    return both > 0 ? 2.0 * static_cast<double>(correct[c]) / static_cast<double>(both) : 0.0;
  };
  if (predicted.size(0) == 2) return score_class(1);
  double sum = 0.0;
  int64_t classes = 0;
  for (int64_t c = 0; c < predicted.size(0); ++c)
    if (predicted[c] + actual[c] > 0) sum += score_class(c), ++classes;
  return classes > 0 ? sum / static_cast<double>(classes) : 0.0;
}

double mean_gain(const Metric& metric, const ClassCounts& counts) {
  const auto target_ranks = counts.target_ranks.accessor<int64_t, 1>();
  double sum = 0.0;
  int64_t targets = 0;
  for (int64_t rank = 1; rank <= target_ranks.size(0); ++rank) {
    const int64_t count = target_ranks[rank - 1];
    if (count > 0) sum += static_cast<double>(count) * gain(metric, std::array{rank});
    targets += count;
  }
  return targets > 0 ? sum / static_cast<double>(targets) : 0.0;
}

}  // namespace

const std::vector<MetricKind>& metric_kinds() {
  static const std::vector<MetricKind> kinds = {
      {.name = "perplexity", .of = Of::loss, .less_is_better = true},
      {.name = "accuracy", .of = Of::ranks},
      {.name = "f1", .of = Of::classes},
      {.name = "recall", .of = Of::ranks, .takes_cutoff = true, .needs_cutoff = true},
      {.name = "mrr", .of = Of::ranks, .takes_cutoff = true},
      {.name = "ndcg", .of = Of::ranks, .takes_cutoff = true},
      {.name = "pearson", .of = Of::numbers},
      {.name = "spearman", .of = Of::numbers},
      {.name = "mse", .of = Of::numbers, .less_is_better = true},
      {.name = "mae", .of = Of::numbers, .less_is_better = true},
  };
  return kinds;
}

bool less_is_better(std::string_view name) {
  const auto kind = get_kind(name);
  return kind != metric_kinds().end() && kind->less_is_better;
}

Metric find_metric(const std::string& name, std::string_view task_name, std::string_view problem) {
  const Task& task = *find_task(task_name);
  const size_t at = name.find('@');
  const std::string_view stem = std::string_view(name).substr(0, at);
  std::vector<std::string> known;
  for (const MetricKind& kind : metric_kinds())
    if (suits(kind, task, problem)) known.push_back(fmt::format("{}{}", kind.name, kind.takes_cutoff ? "@20" : ""));
  const auto kind = get_kind(name);
  if (known.empty()) reject(name, fmt::format("is not a metric of {}, which has none", task.name));
  if (kind == metric_kinds().end() || !suits(*kind, task, problem))
    reject(name, fmt::format("is not a metric of {}: use one of {}", task.name, fmt::join(known, ", ")));
  Metric metric{name, &*kind};
  if (at == std::string::npos) {
    if (kind->needs_cutoff) reject(name, fmt::format("needs a cutoff, e.g. {}@20", stem));
    return metric;
  }
  if (!kind->takes_cutoff) reject(name, fmt::format("takes no cutoff: write {}", stem));
  const std::string_view digits = std::string_view(name).substr(at + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), metric.cutoff);
  if (error != std::errc() || end != digits.data() + digits.size() || metric.cutoff < 1)
    reject(name, fmt::format("needs a cutoff of at least 1 after the \"@\", e.g. {}@20", stem));
  return metric;
}

std::vector<std::string> usual_metrics(std::string_view task_name, std::string_view problem) {
  const Task& task = *find_task(task_name);
  if (problem == kRegression || problem == "cosine") return {"pearson", "spearman"};
  if (task.name == "contrastive-pairs") return {};
  if (compares_rows(task)) return {"mrr@10"};
  if (predicts_tokens(task)) return {"perplexity"};
  if (is_of_sessions(task)) return {"recall@20", "mrr@20", "ndcg@20"};
  return {"accuracy", "f1"};
}

double gain(const Metric& metric, std::span<const int64_t> ranks) {
  const int64_t cutoff = metric.cutoff > 0 ? metric.cutoff : ranks.back();
  const auto counted = static_cast<size_t>(std::ranges::upper_bound(ranks, cutoff) - ranks.begin());
  const auto discount = [](int64_t rank) { return 1.0 / std::log2(1.0 + static_cast<double>(rank)); };
  if (metric.kind->name == "accuracy") return ranks.front() == 1 ? 1.0 : 0.0;
  if (metric.kind->name == "recall") return static_cast<double>(counted) / static_cast<double>(ranks.size());
  if (metric.kind->name == "mrr") return counted > 0 ? 1.0 / static_cast<double>(ranks.front()) : 0.0;
  TORCH_INTERNAL_ASSERT(metric.kind->name == "ndcg", metric.name);
  double sum = 0.0, most = 0.0;
  for (const int64_t rank : ranks.first(counted)) sum += discount(rank);
  for (int64_t rank = 1; rank <= std::min(cutoff, static_cast<int64_t>(ranks.size())); ++rank) most += discount(rank);
  return sum / most;
}

double get_value(const Metric& metric, const ClassCounts& counts, double loss) {
  if (metric.kind->of == Of::loss) return std::exp(loss);
  return metric.kind->of == Of::classes ? f1(counts) : mean_gain(metric, counts);
}

bool has_value_over_all_sets(const Metric& metric, const ModelConfig& network) {
  if (metric.kind->of == MetricKind::Of::loss) return true;
  if (metric.kind->of == MetricKind::Of::numbers) return false;  // a correlation over all is no mean of those over each
  // Embeddings are ranked for those rows alone that have another of their label.
  return metric.name != "f1" && !find_task(network.entry->task)->label_count.empty();
}

}  // namespace modular
