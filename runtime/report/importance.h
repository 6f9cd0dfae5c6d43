// How much the settings of a search mattered to what its trials found.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/search/space.h"

namespace modular {

/// Places in ascending order from 1; equal values share the mean of their places.
std::vector<double> compute_ranks(std::span<const double> values);

/// Spearman's rank correlation of two lists of one length, in [-1, 1]; nothing where one of them has fewer than two
/// different values.
std::optional<double> rank_correlation(std::span<const double> one, std::span<const double> other);

/// Eta squared over ranks: the share of the variance of the values' ranks that lies between groups, in [0, 1]; `groups`
/// has the group of each value. Nothing where there are fewer than two groups, or all values are equal.
std::optional<double> variance_between(std::span<const size_t> groups, std::span<const double> values);

struct Importance {
  double share = 0.0;                 // of the variance of the objective's ranks that the setting explains, in [0, 1]
  double by_chance = 0.0;             // what a setting without any effect explains on average
  std::optional<double> correlation;  // of a range: whether the objective rises (above 0) or falls with it
};

/// Of a range of numbers the square of Spearman's rank correlation, which sees effects that rise or fall throughout; of
/// some values eta squared over ranks. `settings`, as TOML writes them, and `values`, an objective's, are those of the
/// same trials. Nothing where they do not tell: with fewer than three trials, or where nothing varied.
std::optional<Importance> compute_importance(const Dimension& dimension, std::span<const std::string> settings,
                                             std::span<const double> values);

}  // namespace modular
