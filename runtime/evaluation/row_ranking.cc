#include "runtime/evaluation/row_ranking.h"

#include <algorithm>

#include "runtime/mesh/collectives.h"
#include "runtime/model/pairs.h"

namespace modular {
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
