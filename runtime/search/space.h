// The settings that a search tries, and which values each may have.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace modular {

/// A setting of the space: some values, or a range of numbers.
struct Dimension {
  std::string key;                   // "optim.lr"
  std::vector<std::string> choices;  // as TOML writes them; empty for a range
  double low = 0.0, high = 0.0;      // of a range, both included
  double step = 0.0;                 // of a range: low, low + step, …; 0 for any number
  bool log = false;                  // of a range: drawn evenly over its logarithm
  bool whole = false;                // of a range: of integers

  /// How many values it has; 0 where they cannot be counted.
  int64_t count() const;
  /// The value of that number, from 0, as TOML writes it.
  std::string value(int64_t number) const;
  /// The value at a place in [0, 1) of what there is, as TOML writes it.
  std::string at(double place) const;
};

/// Values for a trial, each beside its key.
using TrialConfig = std::vector<std::pair<std::string, std::string>>;

/// Values that follow from the seed and the trial's number alone, so that a search that goes on draws what it would
/// have drawn.
TrialConfig draw(const std::vector<Dimension>& space, uint64_t seed, int64_t trial);

/// How many combinations of values there are, at most the largest number; 0 where they cannot be counted.
int64_t grid_size(const std::vector<Dimension>& space);

/// The combination of that number, in which the last setting changes first.
TrialConfig grid_point(const std::vector<Dimension>& space, int64_t number);

}  // namespace modular
