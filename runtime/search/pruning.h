// Pruning of running trials.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "runtime/search/search_config.h"

namespace modular {

/// Follows the evaluations of a run as it writes them.
class Pruning {
 public:
  /// `should_prune(step, value)` is called once per evaluation of the run with a finite objective.
  Pruning(std::filesystem::path run, Objective objective, std::function<bool(int64_t step, double value)> should_prune);

  /// Reads new evaluations; returns whether any evaluation so far was pruned.
  bool check();

  /// Reason for pruning, e.g. "pruned after step 40, with held_out_loss 2.31"; empty if the run was not pruned.
  const std::string& reason() const { return reason_; }

 private:
  std::filesystem::path metrics_;
  Objective objective_;
  std::function<bool(int64_t step, double value)> should_prune_;
  uintmax_t bytes_ = 0;  // size of the file when it was last read
  size_t seen_ = 0;
  std::string reason_;
};

}  // namespace modular
