#include "runtime/report/series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace modular {
namespace {

/// Returns the indices in [begin, end) of the minimum, the maximum and the first value that is not finite, in order.
std::set<size_t> extremes(const std::vector<double>& values, size_t begin, size_t end) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  size_t least = kNone, largest = kNone, not_finite = kNone;
  for (size_t i = begin; i < end; ++i) {
    if (!std::isfinite(values[i])) {
      not_finite = std::min(not_finite, i);
      continue;
    }
    if (least == kNone || values[i] < values[least]) least = i;
    if (largest == kNone || values[i] > values[largest]) largest = i;
  }
  std::set<size_t> indices = {least, largest, not_finite};
  indices.erase(kNone);
  return indices;
}

/// Returns the mean of the finite values in [begin, end); NaN if none is finite.
double compute_mean(const std::vector<double>& values, size_t begin, size_t end) {
  double sum = 0.0;
  int64_t count = 0;
  for (size_t i = begin; i < end; ++i) {
    if (!std::isfinite(values[i])) continue;
    sum += values[i];
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void Series::add(int64_t step, double value) {
  steps.push_back(step);
  values.push_back(std::isfinite(value) ? value : std::numeric_limits<double>::quiet_NaN());
}

void Series::forget_from(int64_t step) {
  const auto first = std::ranges::lower_bound(steps, step);
  values.resize(static_cast<size_t>(first - steps.begin()));
  steps.erase(first, steps.end());
}

Thinned thinned(const Series& series, size_t max_points) {
  const size_t count = series.steps.size();
  if (count <= max_points) return {.points = series, .means = {.name = series.name}};
  const bool all_finite = std::ranges::all_of(series.values, [](double value) { return std::isfinite(value); });
  const size_t inner = count - 2, buckets = std::max<size_t>((max_points - 2) / (all_finite ? 2 : 3), 1);
  Thinned result{.points = {.name = series.name}, .means = {.name = series.name}};
  const auto keep = [&](size_t i) { result.points.add(series.steps[i], series.values[i]); };
  keep(0);
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const size_t begin = 1 + bucket * inner / buckets, end = 1 + (bucket + 1) * inner / buckets;
    if (begin == end) continue;
    for (const size_t i : extremes(series.values, begin, end)) keep(i);
    result.means.add(series.steps[end - 1], compute_mean(series.values, begin, end));
  }
  keep(count - 1);
  return result;
}

}  // namespace modular
