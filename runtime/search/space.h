// The search space: config keys and their candidate values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace modular {

/// A dimension of the search space: choices, or a range of numbers.
struct Dimension {
  std::string key;                   // "optim.lr"
  std::vector<std::string> choices;  // as TOML; empty for a range
  double low = 0.0, high = 0.0;      // bounds of a range, inclusive
  double step = 0.0;                 // range of low, low + step, …; 0 for a continuous range
  bool log = false;                  // range sampled log-uniformly
  bool integral = false;             // range of integers

  /// Number of values; 0 for a continuous range.
  int64_t count() const;
  /// Returns the value with index `index`, as TOML.
  std::string value(int64_t index) const;
  /// Maps a fraction in [0, 1) to a value, as TOML.
  std::string at(double fraction) const;
};

/// Config keys and values of a trial.
using TrialConfig = std::vector<std::pair<std::string, std::string>>;

/// Samples a trial's values. They depend only on the seed and the trial's number, so that a resumed search samples the
/// same values.
TrialConfig sample_config(const std::vector<Dimension>& space, uint64_t seed, int64_t trial);

/// Number of combinations of values, saturating at the largest int64; 0 if a range is continuous.
int64_t grid_size(const std::vector<Dimension>& space);

/// Returns the grid point with index `index`; the last dimension varies fastest.
TrialConfig grid_point(const std::vector<Dimension>& space, int64_t index);

}  // namespace modular
