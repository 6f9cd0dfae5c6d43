// A number over the steps of a run, and its downsampling for plots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace modular {

/// Points in ascending order of steps. Infinite values are stored as NaN.
struct Series {
  std::string name;
  std::vector<int64_t> steps;
  std::vector<double> values;  // one per step

  void add(int64_t step, double value);
  /// Removes the points of `step` and later ones.
  void forget_from(int64_t step);
};

/// The part of a series that a plot shows.
struct Thinned {
  Series points;
  Series means;  // mean of each bucket, at its last step; empty if all points are shown
};

/// Downsamples a series to at most `max_points` points (4 or more). If it has more, the points between the first and
/// the last are divided into buckets whose sizes differ by at most one. Each bucket keeps its minimum and maximum, so
/// that spikes of a single step survive, and its first value that is not finite, if any.
Thinned thinned(const Series& series, size_t max_points);

}  // namespace modular
