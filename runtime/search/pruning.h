// Whether a trial that runs is worth continuing with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "runtime/search/search_config.h"

namespace modular {

/// Looks at the evaluations of a run as it writes them.
class Pruning {
 public:
  /// `is_hopeless(step, value)` is asked once for each evaluation of the run whose objective is a finite number.
  Pruning(std::filesystem::path run, Objective objective, std::function<bool(int64_t step, double value)> is_hopeless);

  /// Whether an evaluation so far was hopeless. Reads what is new.
  bool look();

  /// Why the run was ended, e.g. "pruned after step 40, with val_loss 2.31"; empty where it was not.
  const std::string& reason() const { return reason_; }

 private:
  std::filesystem::path metrics_;
  Objective objective_;
  std::function<bool(int64_t step, double value)> is_hopeless_;
  uintmax_t bytes_ = 0;  // of the file when it was read last
  size_t seen_ = 0;
  std::string reason_;
};

}  // namespace modular
