#include "runtime/evaluation/number_pairs.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "runtime/model/tensors.h"

namespace modular {
namespace {

constexpr std::pair<std::string_view, double (*)(const at::Tensor&, const at::Tensor&)> kKinds[] = {
    {"pearson", pearson}, {"spearman", spearman}, {"mse", mean_squared_error}, {"mae", mean_absolute_error}};

/// Ranks from 1, ties averaged: [numbers] float64.
at::Tensor compute_ranks(const at::Tensor& numbers) {
  const auto [values, location, counts] =
      at::_unique2(numbers, /*sorted=*/true, /*return_inverse=*/true, /*return_counts=*/true);
  const at::Tensor last = counts.cumsum(0).to(at::kDouble), several = counts.to(at::kDouble);
  return (last - (several - 1.0) / 2.0).index_select(0, location);
}

}  // namespace

double pearson(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0.0;
  const at::Tensor x = a.to(at::kDouble) - a.to(at::kDouble).mean(), y = b.to(at::kDouble) - b.to(at::kDouble).mean();
  const double both = (x * y).sum().item<double>();
  const double scale = std::sqrt(x.square().sum().item<double>()) * std::sqrt(y.square().sum().item<double>());
  return scale > 0.0 ? both / scale : 0.0;
}

double spearman(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0.0 : pearson(compute_ranks(a), compute_ranks(b));
}

double mean_squared_error(const at::Tensor& predicted, const at::Tensor& actual) {
  return predicted.numel() == 0 ? 0.0 : (predicted - actual).square().mean().item<double>();
}

double mean_absolute_error(const at::Tensor& predicted, const at::Tensor& actual) {
  return predicted.numel() == 0 ? 0.0 : (predicted - actual).abs().mean().item<double>();
}

void NumberPairs::add(const at::Tensor& predicted, const at::Tensor& actual, const at::Tensor& samples) {
  rows_.add(at::cat({predicted.to(at::kDouble), actual.to(at::kDouble).to(predicted.device())}, 1), samples);
}

std::vector<double> NumberPairs::values(const std::vector<Metric>& metrics, const Mesh& mesh) const {
  const at::Tensor all = rows_.all(at::kDouble, mesh);
  const std::vector<at::Tensor> halves = all.chunk(2, 1);
  std::vector<double> values(metrics.size());
  if (all.numel() == 0) return values;
  const at::Tensor counted = halves[1].ne(kIgnoredTarget);
  const at::Tensor predicted = halves[0].masked_select(counted), actual = halves[1].masked_select(counted);
  for (size_t i = 0; i < metrics.size(); ++i) {
    const auto kind = std::ranges::find(kKinds, metrics[i].kind->name, [](const auto& entry) { return entry.first; });
    values[i] = kind->second(predicted, actual);
  }
  return values;
}

}  // namespace modular
