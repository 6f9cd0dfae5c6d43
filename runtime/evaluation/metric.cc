#include "runtime/evaluation/metric.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "runtime/data/model_inputs.h"
#include "runtime/mesh/collectives.h"
#include "runtime/model/tasks.h"
#include "runtime/model/tensors.h"

namespace modular {
namespace {

constexpr int64_t kElementsAtOnce = int64_t{1} << 22;  // logits that are compared at once; bounds memory

}  // namespace

ClassCounts ClassCounts::zeros(int64_t classes) {
  const auto count = [&] { return at::zeros({classes}, at::kLong); };
  return {count(), count(), count(), count()};
}

void ClassCounts::add(const at::Tensor& logits, const at::Tensor& targets) {
  const int64_t classes = target_ranks.size(0);
  TORCH_CHECK(logits.size(-1) == classes, "the model has logits for ", logits.size(-1), " classes, not ", classes);
  const at::Tensor flat = targets.to(logits.device()).flatten();
  const at::Tensor counted = flat.ne(kIgnoredTarget).nonzero().flatten();
  const at::Tensor rows = logits.reshape({-1, classes}), ids = at::arange(classes, flat.options());
  const int64_t step = std::max<int64_t>(1, kElementsAtOnce / classes);
  const auto count = [&](at::Tensor& counts, const at::Tensor& values) {
    counts += values.bincount(/*weights=*/{}, /*minlength=*/classes).cpu();
  };
  for (int64_t first = 0; first < counted.numel(); first += step) {
    const at::Tensor chunk = counted.narrow(0, first, std::min(step, counted.numel() - first));
    const at::Tensor scores = rows.index_select(0, chunk), target = flat.index_select(0, chunk).unsqueeze(1);
    const at::Tensor own = scores.gather(1, target);
    const at::Tensor before = scores.gt(own).logical_or_(scores.eq(own).logical_and_(ids.lt(target))).sum(1);
    const at::Tensor largest = at::where(scores.eq(scores.amax(1, /*keepdim=*/true)), ids, classes)
                                   .amin(1)
                                   .clamp_max_(classes - 1);  // a row of NaN has no largest logit; its loss is NaN
    count(target_ranks, before);
    count(predicted, largest);
    count(actual, target.squeeze(1));
    count(correct, largest.masked_select(largest.eq(target.squeeze(1))));
  }
}

void ClassCounts::sum(const Mesh& mesh) {
  at::Tensor all = at::stack({target_ranks, predicted, actual, correct});
  all_reduce(mesh.control(), all, "evaluation counts").wait();
  target_ranks = all[0], predicted = all[1], actual = all[2], correct = all[3];
}

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

void LabelSets::add(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor on_host = labels.cpu();
  const at::Tensor counted = on_host.ne(kIgnoredTarget).all(1).nonzero().flatten();
  const at::Tensor predicted = logits.cpu().index_select(0, counted).gt(0.0);
  const at::Tensor actual = on_host.index_select(0, counted).gt(0.5);
  counts_ += at::stack({predicted.sum(0), actual.sum(0), predicted.logical_and(actual).sum(0)});
  rows_ += at::stack({at::scalar_tensor(counted.numel(), at::kLong), predicted.eq(actual).all(1).sum()});
}

void LabelSets::sum(const Mesh& mesh) {
  for (const at::Tensor& counts : {counts_, rows_}) all_reduce(mesh.control(), counts, "evaluation counts").wait();
}

double LabelSets::value(const Metric& metric) const {
  const auto rows = rows_.to(at::kDouble);
  if (metric.kind->name == "accuracy") return (rows[1] / rows[0].clamp_min(1.0)).item<double>();
  const at::Tensor counts = counts_.to(at::kDouble);
  return (2.0 * counts[2] / (counts[0] + counts[1]).clamp_min(1.0)).mean().item<double>();
}

}  // namespace modular
