#include "runtime/report/importance.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>
#include <string>

namespace modular {
namespace {

double compute_mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The sum of the products of two lists' distances from their means.
double products(std::span<const double> one, std::span<const double> other) {
  const double mean = compute_mean(one), other_mean = compute_mean(other);
  double sum = 0.0;
  for (size_t i = 0; i < one.size(); ++i) sum += (one[i] - mean) * (other[i] - other_mean);
  return sum;
}

}  // namespace

std::vector<double> compute_ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + 1 + end) / 2.0;
  }
  return ranks;
}

std::optional<double> rank_correlation(std::span<const double> one, std::span<const double> other) {
  const std::vector<double> ranks = compute_ranks(one), other_ranks = compute_ranks(other);
  const double spread = products(ranks, ranks) * products(other_ranks, other_ranks);
  if (!(spread > 0.0)) return std::nullopt;
  return products(ranks, other_ranks) / std::sqrt(spread);
}

std::optional<double> variance_between(std::span<const size_t> groups, std::span<const double> values) {
  const std::vector<double> ranks = compute_ranks(values);
  const double whole = products(ranks, ranks), mean = compute_mean(ranks);
  const std::set<size_t> names(groups.begin(), groups.end());
  if (names.size() < 2 || !(whole > 0.0)) return std::nullopt;
  double between = 0.0;
  for (const size_t name : names) {
    std::vector<double> members;
    for (size_t i = 0; i < groups.size(); ++i)
      if (groups[i] == name) members.push_back(ranks[i]);
    between += static_cast<double>(members.size()) * std::pow(compute_mean(members) - mean, 2);
  }
  return between / whole;
}

std::optional<Importance> compute_importance(const Dimension& dimension, std::span<const std::string> settings,
                                             std::span<const double> values) {
  if (settings.size() < 3) return std::nullopt;
  const auto further = static_cast<double>(settings.size() - 1);
  if (dimension.choices.empty()) {
    std::vector<double> numbers;
    for (const std::string& setting : settings) numbers.push_back(std::strtod(setting.c_str(), nullptr));
    const auto correlation = rank_correlation(numbers, values);
    if (!correlation) return std::nullopt;
    return Importance{.share = *correlation * *correlation, .by_chance = 1.0 / further, .correlation = correlation};
  }
  std::vector<size_t> groups;
  for (const std::string& setting : settings)
    groups.push_back(static_cast<size_t>(std::ranges::find(dimension.choices, setting) - dimension.choices.begin()));
  const auto share = variance_between(groups, values);
  if (!share) return std::nullopt;
  const auto tried = static_cast<double>(std::set(groups.begin(), groups.end()).size());
  return Importance{.share = *share, .by_chance = (tried - 1.0) / further};
}

}  // namespace modular
