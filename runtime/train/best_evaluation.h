// Which evaluation of a run was the best, and how many there have been since.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/metrics/metrics.h"

namespace modular {

class BestEvaluation {
 public:
  /// By the metric of that name, or by "loss"; of a loss and of a perplexity the least is the best.
  explicit BestEvaluation(std::string name);

  /// Takes the next evaluation. Returns whether it is better than all before.
  bool add(const Evaluation& evaluation);

  const std::string& name() const { return name_; }
  /// After which step it was; nothing before the first.
  std::optional<int64_t> step() const { return step_; }
  double value() const { return value_; }
  /// Evaluations after the best.
  int64_t since() const { return since_; }

  /// What a checkpoint keeps of it, and takes it up from; what is not there, or of another metric, is as new.
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
