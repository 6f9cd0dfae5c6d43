// A number over the steps of a run, and as many of its points as a picture has room for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace modular {

/// Points by step, which rises. A value that is not finite is NaN.
struct Series {
  std::string name;
  std::vector<int64_t> steps;
  std::vector<double> values;  // one for each step

  void add(int64_t step, double value);
  /// Removes the points of `step` and later ones.
  void forget_from(int64_t step);
};

/// What is shown of a series.
struct Thinned {
  Series points;
  Series means;  // of each bucket, at its last step; empty where all points are shown
};

/// At most `most` points (4 or more) of a series. Where it has more, the points between the first and the last one are
/// divided into buckets of the same number, or one more, and of each the least and the largest are kept, so that a
/// spike of a single step stays; where some are not finite, one of these too.
Thinned thinned(const Series& series, size_t most);

}  // namespace modular
