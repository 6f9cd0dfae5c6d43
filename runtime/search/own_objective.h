// What a program of one's own judges the trials of a search by.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace modular {

/// A trial's run that has ended, as an objective sees it.
struct EndedRun {
  std::filesystem::path folder;           // train.dir: metrics.jsonl, checkpoints, …
  std::map<std::string, double> numbers;  // "val_loss" and the metrics of the last evaluation, "seconds" and so on
};

struct OwnObjective {
  std::string name;  // as search.objective names it
  bool minimize = true;
  /// Called once for each trial whose run has ended well, in a process of its own, which has no GPU. What it throws,
  /// and a value that is no finite number, make the trial a failed one.
  std::function<double(const EndedRun&)> value;
};

/// Those of this program.
inline std::vector<OwnObjective>& own_objectives() {
  static std::vector<OwnObjective> registered;
  return registered;
}

/// Registers one. The value only gives a static initializer something to initialize:
/// `const bool registered = modular::register_objective({.name = "balance", .value = …});`
inline bool register_objective(OwnObjective added) {
  own_objectives().push_back(std::move(added));
  return true;
}

}  // namespace modular
