// The best evaluation of a run, and the number of evaluations since.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/metrics/metrics.h"

namespace modular {

class BestEvaluation {
 public:
  /// Compares by the metric `name`, or by "loss". Of losses and perplexities, lower is better.
  explicit BestEvaluation(std::string name);

  /// Adds the next evaluation. Returns whether it is better than all previous ones.
  bool add(const Evaluation& evaluation);

  const std::string& name() const { return name_; }
  /// Step of the best evaluation; nullopt before the first evaluation.
  std::optional<int64_t> step() const { return step_; }
  double value() const { return value_; }
  /// Number of evaluations after the best.
  int64_t since() const { return since_; }

  /// State to save in a checkpoint and to restore from one. Fields that are missing, or belong to another metric, are
  /// reset.
  void write(std::map<std::string, std::string>& values) const;
  void read(const std::map<std::string, std::string>& values);

 private:
  std::string name_;
  bool less_is_better_;
  std::optional<int64_t> step_;
  double value_ = 0.0;
  int64_t since_ = 0;
};

}  // namespace modular
