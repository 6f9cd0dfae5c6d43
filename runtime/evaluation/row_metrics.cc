#include "runtime/evaluation/row_metrics.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "runtime/mesh/collectives.h"
#include "runtime/model/pairs.h"
#include "runtime/model/tensors.h"

namespace modular {
namespace {

/// Concatenates the rows of all ranks. Ranks may have different numbers of rows, or none.
at::Tensor gather(const at::Tensor& own, const Mesh& mesh) {
  if (!mesh.control()) return own;
  const int64_t ranks = mesh.world_size();
  const auto gather_parts = [&](const at::Tensor& part) {
    at::Tensor all = at::zeros({ranks * part.numel()}, part.options());
    all.narrow(0, mesh.rank() * part.numel(), part.numel()).copy_(part.flatten());
    all_gather(mesh.control(), {all}, "evaluation rows").wait();
    return all;
  };
  const at::Tensor sizes = gather_parts(at::tensor({own.size(0), own.size(1)}, at::kLong)).view({ranks, 2});
  const int64_t most = sizes.select(1, 0).max().item<int64_t>(), width = sizes.select(1, 1).max().item<int64_t>();
  at::Tensor padded = at::zeros({most, width}, own.options());
  if (own.size(0) > 0) padded.narrow(0, 0, own.size(0)).copy_(own);
  const at::Tensor all = gather_parts(padded).view({ranks, most, width});
  std::vector<at::Tensor> parts;
  for (int64_t rank = 0; rank < ranks; ++rank) parts.push_back(all[rank].narrow(0, 0, sizes[rank][0].item<int64_t>()));
  return at::cat(parts);
}

at::Tensor join(const std::vector<at::Tensor>& parts, at::ScalarType type) {
  return parts.empty() ? at::empty({0, 0}, type) : at::cat(parts);
}

}  // namespace

void GatheredRows::add(const at::Tensor& rows, const at::Tensor& samples) {
  rows_.push_back(rows.cpu());
  samples_.push_back(samples.cpu().unsqueeze(1));
}

at::Tensor GatheredRows::all(at::ScalarType type, const Mesh& mesh) const {
  const at::Tensor order = gather(join(samples_, at::kLong), mesh).flatten().argsort();
  return gather(join(rows_, type), mesh).index_select(0, order);
}

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

namespace {

constexpr int64_t kScoresAtOnce = int64_t{1} << 22;  // cosines that are compared at once; bounds memory

/// The ranks of the other rows with the row's label among all other rows.
std::vector<int64_t> find_label_ranks(const at::TensorAccessor<int64_t, 1>& by_cosine,
                                      const at::TensorAccessor<int64_t, 1>& labels_by_row, int64_t row) {
  std::vector<int64_t> ranks;
  int64_t rank = 0;
  for (int64_t i = 0; i < by_cosine.size(0); ++i) {
    const int64_t other = by_cosine[i];
    if (other == row) continue;
    ++rank;
    if (labels_by_row[other] == labels_by_row[row]) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

void RowRanking::add(const at::Tensor& embeddings, const at::Tensor& labels, const at::Tensor& samples) {
  const at::Tensor counted = labels.cpu().ne(kIgnoredTarget).nonzero().flatten();
  const auto kept = [&](const at::Tensor& rows) { return rows.cpu().index_select(0, counted); };
  embeddings_.add(unit_rows(kept(embeddings).to(at::kDouble)).flatten(1), kept(samples));
  const at::Tensor own = kept(labels).to(at::kLong);
  labels_.add(at::stack({own, at::full_like(own, embeddings.size(1))}, 1), kept(samples));
}

std::vector<double> RowRanking::values(const std::vector<Metric>& metrics, const Mesh& mesh) const {
  const at::Tensor labels_and_texts = labels_.all(at::kLong, mesh);
  const int64_t count = labels_and_texts.size(0), part = (count + mesh.world_size() - 1) / mesh.world_size();
  const at::Tensor embeddings = embeddings_.all(at::kDouble, mesh);
  if (count == 0) return std::vector<double>(metrics.size());
  const at::Tensor labels = labels_and_texts.select(1, 0);
  const int64_t others =
      labels_and_texts[0][1].item<int64_t>() - 1;  // number of a sample's texts that are searched for
  const at::Tensor texts = embeddings.unflatten(1, {others + 1, -1});
  const at::Tensor rows = texts.select(1, 0), candidates = others > 0 ? texts.slice(1, 1).flatten(0, 1) : rows;
  const int64_t begin = std::min(mesh.rank() * part, count), end = std::min(begin + part, count);
  const int64_t step = std::max<int64_t>(1, kScoresAtOnce / candidates.size(0));

  // [rows, 1 + metrics]: whether a row counts, and its gains; each row is set by one rank.
  at::Tensor gains = at::zeros({count, 1 + static_cast<int64_t>(metrics.size())}, at::kDouble);
  const auto labels_by_row = labels.accessor<int64_t, 1>();
  auto gains_by_row = gains.accessor<double, 2>();
  for (int64_t first = begin; first < end; first += step) {
    const int64_t length = std::min(step, end - first);
    const at::Tensor cosines = rows.narrow(0, first, length).mm(candidates.t());
    const at::Tensor sorted = cosines.argsort(/*stable=*/true, /*dim=*/1, /*descending=*/true);
    const auto by_cosine = sorted.accessor<int64_t, 2>();
    for (int64_t row = first; row < first + length; ++row) {
      const auto order = by_cosine[row - first];
      std::vector<int64_t> ranks;
      if (others > 0)
        ranks = {1 + std::find(order.data(), order.data() + order.size(0), row * others) - order.data()};
      else
        ranks = find_label_ranks(order, labels_by_row, row);
      if (ranks.empty()) continue;
      gains_by_row[row][0] = 1.0;
      for (size_t m = 0; m < metrics.size(); ++m)
        gains_by_row[row][static_cast<int64_t>(m) + 1] = gain(metrics[m], ranks);
    }
  }
  all_reduce(mesh.control(), gains, "evaluation ranking").wait();

  std::vector<double> sums(metrics.size() + 1);
  for (int64_t row = 0; row < count; ++row)
    for (size_t m = 0; m < sums.size(); ++m) sums[m] += gains_by_row[row][static_cast<int64_t>(m)];
  std::vector<double> values;
  for (size_t m = 1; m < sums.size(); ++m) values.push_back(sums[0] > 0.0 ? sums[m] / sums[0] : 0.0);
  return values;
}

}  // namespace modular
