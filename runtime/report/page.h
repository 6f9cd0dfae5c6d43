// A self-contained HTML page that shows runs and searches.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/report/run_history.h"
#include "runtime/search/space.h"
#include "runtime/search/study.h"

namespace modular {

// Importance of a search's hyperparameters for its objectives.

/// Ranks in ascending order from 1; ties get the mean of their ranks.
std::vector<double> compute_ranks(std::span<const double> values);

/// Spearman's rank correlation of two lists of equal length, in [-1, 1]; nullopt if one of them has fewer than two
/// distinct values.
std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b);

/// Eta squared over ranks: the fraction of the variance of the values' ranks that is between groups, in [0, 1].
/// `groups` has the group of each value. Returns nullopt if there are fewer than two groups or all values are equal.
std::optional<double> variance_between(std::span<const size_t> groups, std::span<const double> values);

struct Importance {
  double share = 0.0;                 // fraction of the variance of the objective's ranks explained, in [0, 1]
  double by_chance = 0.0;             // expected fraction for a hyperparameter without effect
  std::optional<double> correlation;  // for a range: positive if the objective rises with it, negative if it falls
};

/// For a range, the square of Spearman's rank correlation, which detects monotonic effects; for choices, eta squared
/// over ranks. `inputs` (TOML values of the dimension) and `values` (of one objective) have one element per trial.
/// Returns nullopt with fewer than three trials, or if nothing varied.
std::optional<Importance> compute_importance(const Dimension& dimension, std::span<const std::string> inputs,
                                             std::span<const double> values);

/// A search and its folder.
struct SearchHistory {
  std::filesystem::path folder;
  StudyRecord study;
};

/// Maximum number of points per curve; longer curves are downsampled.
inline constexpr size_t kMostPoints = 2000;

/// Returns the page as UTF-8 text. Its data is embedded as JSON, with numbers of seven digits, in the element with the
/// id "data"; embedded scripts draw it. The page loads nothing, and equal histories give equal bytes.
std::string report_page(const std::vector<RunHistory>& runs, const std::vector<SearchHistory>& searches);

}  // namespace modular
