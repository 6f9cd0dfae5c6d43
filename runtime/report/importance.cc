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

/// Unnormalized covariance: the sum over i of (a[i] - mean(a)) * (b[i] - mean(b)).
double scatter(std::span<const double> a, std::span<const double> b) {
  const double a_mean = compute_mean(a), b_mean = compute_mean(b);
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - a_mean) * (b[i] - b_mean);
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

std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> a_ranks = compute_ranks(a), b_ranks = compute_ranks(b);
  const double spread = scatter(a_ranks, a_ranks) * scatter(b_ranks, b_ranks);
  if (!(spread > 0.0)) return std::nullopt;
  return scatter(a_ranks, b_ranks) / std::sqrt(spread);
}

std::optional<double> variance_between(std::span<const size_t> groups, std::span<const double> values) {
  const std::vector<double> ranks = compute_ranks(values);
  const double total = scatter(ranks, ranks), mean = compute_mean(ranks);
  const std::set<size_t> names(groups.begin(), groups.end());
  if (names.size() < 2 || !(total > 0.0)) return std::nullopt;
  double between = 0.0;
  for (const size_t name : names) {
    std::vector<double> members;
    for (size_t i = 0; i < groups.size(); ++i)
      if (groups[i] == name) members.push_back(ranks[i]);
    between += static_cast<double>(members.size()) * std::pow(compute_mean(members) - mean, 2);
  }
  return between / total;
}

std::optional<Importance> compute_importance(const Dimension& dimension, std::span<const std::string> inputs,
                                             std::span<const double> values) {
  if (inputs.size() < 3) return std::nullopt;
  const auto degrees_of_freedom = static_cast<double>(inputs.size() - 1);
  if (dimension.choices.empty()) {
    std::vector<double> numbers;
    for (const std::string& input : inputs) numbers.push_back(std::strtod(input.c_str(), nullptr));
    const auto correlation = rank_correlation(numbers, values);
    if (!correlation) return std::nullopt;
    return Importance{
        .share = *correlation * *correlation, .by_chance = 1.0 / degrees_of_freedom, .correlation = correlation};
  }
  std::vector<size_t> groups;
  for (const std::string& input : inputs)
    groups.push_back(static_cast<size_t>(std::ranges::find(dimension.choices, input) - dimension.choices.begin()));
  const auto share = variance_between(groups, values);
  if (!share) return std::nullopt;
  const auto tried = static_cast<double>(std::set(groups.begin(), groups.end()).size());
  return Importance{.share = *share, .by_chance = (tried - 1.0) / degrees_of_freedom};
}

}  // namespace modular
