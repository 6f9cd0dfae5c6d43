// Custom objectives of programs that link this library.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace modular {

/// A trial's completed run, as passed to an objective.
struct EndedRun {
  std::filesystem::path folder;           // train.dir: metrics.jsonl, checkpoints, …
  std::map<std::string, double> numbers;  // "held_out_loss" and the metrics of the last evaluation, "seconds" and so on
};

struct OwnObjective {
  std::string name;  // as search.objective names it
  bool minimize = true;
  /// Called once per trial whose run succeeded, in a separate process without a GPU. The trial fails if the function
  /// throws or returns a value that is not finite.
  std::function<double(const EndedRun&)> value;
};

/// Registry of this program's objectives.
inline std::vector<OwnObjective>& own_objectives() {
  static std::vector<OwnObjective> registered;
  return registered;
}

/// Registers an objective. Always returns true, for use in a static initializer:
/// `const bool registered = modular::register_objective({.name = "balance", .value = …});`
inline bool register_objective(OwnObjective added) {
  own_objectives().push_back(std::move(added));
  return true;
}

}  // namespace modular
