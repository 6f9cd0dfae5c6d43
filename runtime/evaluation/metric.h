// Metrics of the validation set, by name: "accuracy", "recall@20".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/evaluation/class_counts.h"

namespace modular {

/// An entry of the table of metrics.
struct MetricKind {
  std::string_view name;
  enum class Of {
    loss,     // the mean loss
    classes,  // predicted and actual classes
    ranks,    // the rank of correct answers among all candidates
    numbers,  // predicted and actual numbers
  } of;
  bool takes_cutoff = false;  // "@k": ranks after k do not count
  bool needs_cutoff = false;
  bool less_is_better = false;
};

const std::vector<MetricKind>& metric_kinds();

/// Whether `name` is a metric, with or without a cutoff, for which less is better.
bool less_is_better(std::string_view name);

/// A metric as a config value names it.
struct Metric {
  std::string name;  // with its cutoff
  const MetricKind* kind = nullptr;
  int64_t cutoff = 0;  // 0 for none
};

/// The metric with this name for an entry's task. `problem` is a classifier's problem type (find_problem()), or the
/// loss of embeddings (SentenceOptions::loss). Throws std::invalid_argument, with a message for users, if there is
/// none.
Metric find_metric(const std::string& name, std::string_view task, std::string_view problem = {});

/// The default metrics of a task; may be empty.
std::vector<std::string> usual_metrics(std::string_view task, std::string_view problem = {});

/// The contribution of one row to a metric of ranks; `ranks` are the ranks of its correct answers (from 1, ascending,
/// at least one). accuracy: whether the first rank is 1; recall: the fraction of ranks within the cutoff; mrr: 1 / the
/// first rank; ndcg: the sum of 1 / log2(1 + rank) divided by its maximum (Järvelin & Kekäläinen, with gains of 1).
double gain(const Metric& metric, std::span<const int64_t> ranks);

/// The metric over all counted targets; computed from the mean loss for metrics of the loss. 0 without targets.
double get_value(const Metric& metric, const ClassCounts& counts, double loss);

/// Whether the metric over several sets follows from its value over each of them.
bool has_value_over_all_sets(const Metric& metric, const ModelConfig& network);

}  // namespace modular
