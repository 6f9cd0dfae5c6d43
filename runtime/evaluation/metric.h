// The metrics of held-out samples, by name: "accuracy", "recall@20".
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

/// A row of the table of metrics.
struct MetricKind {
  std::string_view name;
  enum class Of {
    loss,     // of the mean loss
    classes,  // of what is predicted and what is right, class by class
    ranks,    // of where what is right stands among all that could be
    numbers,  // of what is said and what is right, as numbers
  } of;
  bool takes_cutoff = false;  // "@k": what stands after the k-th place counts for nothing
  bool needs_cutoff = false;
  bool less_is_better = false;
};

const std::vector<MetricKind>& metric_kinds();

/// Whether that is the name of a metric, with or without a cutoff, of which less is better.
bool less_is_better(std::string_view name);

/// A metric as a setting names it.
struct Metric {
  std::string name;  // with its cutoff
  const MetricKind* kind = nullptr;
  int64_t cutoff = 0;  // 0: none
};

/// The metric of that name for an entry's task. `problem`: that of a classifier (find_problem()), or what embeddings
/// are trained for (SentenceOptions::loss). Throws std::invalid_argument that says in a sentence why there is none.
Metric find_metric(const std::string& name, std::string_view task, std::string_view problem = {});

/// The metrics that a task's users look at first; may be none.
std::vector<std::string> usual_metrics(std::string_view task, std::string_view problem = {});

/// Of a metric of ranks: what one row adds, whose right answers stand at these places (from 1, ascending, at least
/// one). accuracy: whether the first place is right; recall: the share of them within the cutoff; mrr: one over the
/// first place; ndcg: the sum of 1 / log2(1 + place) over what it could be at most (Järvelin & Kekäläinen, with gains
/// of 1).
double gain(const Metric& metric, std::span<const int64_t> places);

/// The metric over all targets that were counted; the mean loss for those of the loss. 0 where there are none.
double get_value(const Metric& metric, const ClassCounts& counts, double loss);

/// Whether the metric over several sets follows from its value over each of them.
bool has_value_over_all_sets(const Metric& metric, const ModelConfig& network);

}  // namespace modular
