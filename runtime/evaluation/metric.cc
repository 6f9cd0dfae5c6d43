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

/// The row of a metric's name, with or without a cutoff; the end where there is none.
auto get_kind(std::string_view name) {
  return std::ranges::find(metric_kinds(), name.substr(0, name.find('@')), &MetricKind::name);
}

/// Tasks whose rows are compared with one another, not with classes.
bool compares_rows(const Task& task) { return task.label_count.empty(); }

/// Tasks whose loss is that of a token.
bool predicts_tokens(const Task& task) { return task.label_count.ends_with("vocab_size") && !is_of_sessions(task); }

bool suits(const MetricKind& kind, const Task& task, std::string_view problem) {
  if (task.name == "contrastive-pairs") return false;  // rows are compared within a batch alone
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

/// sklearn.metrics.f1_score: of class 1 where there are two, else the mean over the classes that occur.
double f1(const ClassCounts& counts) {
  const auto predicted = counts.predicted.accessor<int64_t, 1>(), actual = counts.actual.accessor<int64_t, 1>(),
             right = counts.right.accessor<int64_t, 1>();
  const auto of_class = [&](int64_t c) {
    const int64_t both = predicted[c] + actual[c];
    return both > 0 ? 2.0 * static_cast<double>(right[c]) / static_cast<double>(both) : 0.0;
  };
  if (predicted.size(0) == 2) return of_class(1);
  double sum = 0.0;
  int64_t classes = 0;
  for (int64_t c = 0; c < predicted.size(0); ++c)
    if (predicted[c] + actual[c] > 0) sum += of_class(c), ++classes;
  return classes > 0 ? sum / static_cast<double>(classes) : 0.0;
}

double mean_gain(const Metric& metric, const ClassCounts& counts) {
  const auto at_place = counts.places.accessor<int64_t, 1>();
  double sum = 0.0;
  int64_t targets = 0;
  for (int64_t place = 1; place <= at_place.size(0); ++place) {
    const int64_t count = at_place[place - 1];
    if (count > 0) sum += static_cast<double>(count) * gain(metric, std::array{place});
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
  if (known.empty()) reject(name, fmt::format("is no metric of {}, which has none", task.name));
  if (kind == metric_kinds().end() || !suits(*kind, task, problem))
    reject(name, fmt::format("is no metric of {}: it has {}", task.name, fmt::join(known, ", ")));
  Metric metric{name, &*kind};
  if (at == std::string::npos) {
    if (kind->needs_cutoff) reject(name, fmt::format("needs the number of places that count, e.g. {}@20", stem));
    return metric;
  }
  if (!kind->takes_cutoff) reject(name, fmt::format("takes no \"@\": it is {}", stem));
  const std::string_view digits = std::string_view(name).substr(at + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), metric.cutoff);
  if (error != std::errc() || end != digits.data() + digits.size() || metric.cutoff < 1)
    reject(name, fmt::format("needs a number of places from 1 after the \"@\", e.g. {}@20", stem));
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

double gain(const Metric& metric, std::span<const int64_t> places) {
  const int64_t cutoff = metric.cutoff > 0 ? metric.cutoff : places.back();
  const auto counted = static_cast<size_t>(std::ranges::upper_bound(places, cutoff) - places.begin());
  const auto discount = [](int64_t place) { return 1.0 / std::log2(1.0 + static_cast<double>(place)); };
  if (metric.kind->name == "accuracy") return places.front() == 1 ? 1.0 : 0.0;
  if (metric.kind->name == "recall") return static_cast<double>(counted) / static_cast<double>(places.size());
  if (metric.kind->name == "mrr") return counted > 0 ? 1.0 / static_cast<double>(places.front()) : 0.0;
  TORCH_INTERNAL_ASSERT(metric.kind->name == "ndcg", metric.name);
  double sum = 0.0, most = 0.0;
  for (const int64_t place : places.first(counted)) sum += discount(place);
  for (int64_t place = 1; place <= std::min(cutoff, static_cast<int64_t>(places.size())); ++place)
    most += discount(place);
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
