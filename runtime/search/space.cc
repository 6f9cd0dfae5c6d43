#include "runtime/search/space.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/config/config_field.h"
#include "runtime/parallel/random/mixed_bits.h"

namespace modular {
namespace {

std::string to_toml(double value, bool integral) {
  if (!integral) return toml_value(&value);
  int64_t integer = std::llround(value);
  return toml_value(&integer);
}

}  // namespace

int64_t Dimension::count() const {
  if (!choices.empty()) return static_cast<int64_t>(choices.size());
  if (step > 0.0) return static_cast<int64_t>(std::floor((high - low) / step + 1e-9)) + 1;
  return integral && !log ? static_cast<int64_t>(high - low) + 1 : 0;
}

std::string Dimension::value(int64_t index) const {
  if (!choices.empty()) return choices.at(static_cast<size_t>(index));
  return to_toml(low + static_cast<double>(index) * (step > 0.0 ? step : 1.0), integral);
}

std::string Dimension::at(double fraction) const {
  if (const int64_t values = count(); values > 0)
    return value(std::min(static_cast<int64_t>(fraction * static_cast<double>(values)), values - 1));
  const auto between = [&](double first, double last) { return first + fraction * (last - first); };
  if (!log) return to_toml(between(low, high), integral);
  // Sample over [low - 0.5, high + 0.5] so that each integer gets its interval of the log scale.
  if (integral) {
    const double sampled = std::exp(between(std::log(low - 0.5), std::log(high + 0.5)));
    return to_toml(std::clamp(std::round(sampled), low, high), integral);
  }
  return to_toml(std::clamp(std::exp(between(std::log(low), std::log(high))), low, high), integral);
}

TrialConfig sample_config(const std::vector<Dimension>& space, uint64_t seed, int64_t trial) {
  TrialConfig config;
  uint64_t state = mixed(mixed(seed) + static_cast<uint64_t>(trial));
  for (const Dimension& dimension : space) {
    state = mixed(state);
    config.emplace_back(dimension.key, dimension.at(static_cast<double>(state >> 11) * 0x1p-53));
  }
  return config;
}

int64_t grid_size(const std::vector<Dimension>& space) {
  int64_t size = 1;
  for (const Dimension& dimension : space)
    if (__builtin_mul_overflow(size, dimension.count(), &size)) return std::numeric_limits<int64_t>::max();
  return size;
}

TrialConfig grid_point(const std::vector<Dimension>& space, int64_t index) {
  TrialConfig values(space.size());
  for (size_t i = space.size(); i-- > 0;) {
    const int64_t count = space[i].count();
    values[i] = {space[i].key, space[i].value(index % count)};
    index /= count;
  }
  return values;
}

}  // namespace modular
