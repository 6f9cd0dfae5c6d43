#include "runtime/search/space.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/parallel/mixed_bits.h"
#include "runtime/train/config_field.h"

namespace modular {
namespace {

std::string number(double value, bool whole) {
  if (!whole) return toml_value(&value);
  int64_t integer = std::llround(value);
  return toml_value(&integer);
}

}  // namespace

int64_t Dimension::count() const {
  if (!choices.empty()) return static_cast<int64_t>(choices.size());
  if (step > 0.0) return static_cast<int64_t>(std::floor((high - low) / step + 1e-9)) + 1;
  return whole && !log ? static_cast<int64_t>(high - low) + 1 : 0;
}

std::string Dimension::value(int64_t at) const {
  if (!choices.empty()) return choices.at(static_cast<size_t>(at));
  return number(low + static_cast<double>(at) * (step > 0.0 ? step : 1.0), whole);
}

std::string Dimension::at(double place) const {
  if (const int64_t values = count(); values > 0)
    return value(std::min(static_cast<int64_t>(place * static_cast<double>(values)), values - 1));
  const auto between = [&](double first, double last) { return first + place * (last - first); };
  if (!log) return number(between(low, high), whole);
  // Each integer has its share of the logarithm.
  if (whole) {
    const double drawn = std::exp(between(std::log(low - 0.5), std::log(high + 0.5)));
    return number(std::clamp(std::round(drawn), low, high), whole);
  }
  return number(std::clamp(std::exp(between(std::log(low), std::log(high))), low, high), whole);
}

TrialConfig draw(const std::vector<Dimension>& space, uint64_t seed, int64_t trial) {
  TrialConfig drawn;
  uint64_t state = mixed(mixed(seed) + static_cast<uint64_t>(trial));
  for (const Dimension& dimension : space) {
    state = mixed(state);
    drawn.emplace_back(dimension.key, dimension.at(static_cast<double>(state >> 11) * 0x1p-53));
  }
  return drawn;
}

int64_t grid_size(const std::vector<Dimension>& space) {
  int64_t size = 1;
  for (const Dimension& dimension : space)
    if (__builtin_mul_overflow(size, dimension.count(), &size)) return std::numeric_limits<int64_t>::max();
  return size;
}

TrialConfig grid_point(const std::vector<Dimension>& space, int64_t point) {
  TrialConfig values(space.size());
  for (size_t i = space.size(); i-- > 0;) {
    const int64_t count = space[i].count();
    values[i] = {space[i].key, space[i].value(point % count)};
    point /= count;
  }
  return values;
}

}  // namespace modular
