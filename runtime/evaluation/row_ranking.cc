#include "runtime/evaluation/row_ranking.h"

#include <algorithm>

#include "runtime/mesh/collectives.h"
#include "runtime/model/pairs.h"

namespace modular {
namespace {

constexpr int64_t kScoresAtOnce = int64_t{1} << 22;  // cosines that are compared at once, which takes memory

/// The ranks' rows after one another. Ranks may have different numbers of them, or none.
at::Tensor gathered(const at::Tensor& own, const Mesh& mesh) {
  if (!mesh.control()) return own;
  const int64_t ranks = mesh.world_size();
  const auto all_of = [&](const at::Tensor& part) {
    at::Tensor all = at::zeros({ranks * part.numel()}, part.options());
    all.narrow(0, mesh.rank() * part.numel(), part.numel()).copy_(part.flatten());
    all_gather(mesh.control(), {all}, "the rows of an evaluation").wait();
    return all;
  };
  const at::Tensor sizes = all_of(at::tensor({own.size(0), own.size(1)}, at::kLong)).view({ranks, 2});
  const int64_t most = sizes.select(1, 0).max().item<int64_t>(), width = sizes.select(1, 1).max().item<int64_t>();
  at::Tensor padded = at::zeros({most, width}, own.options());
  if (own.size(0) > 0) padded.narrow(0, 0, own.size(0)).copy_(own);
  const at::Tensor all = all_of(padded).view({ranks, most, width});
  std::vector<at::Tensor> parts;
  for (int64_t rank = 0; rank < ranks; ++rank) parts.push_back(all[rank].narrow(0, 0, sizes[rank][0].item<int64_t>()));
  return at::cat(parts);
}

at::Tensor joined(const std::vector<at::Tensor>& parts, at::ScalarType type) {
  return parts.empty() ? at::empty({0, 0}, type) : at::cat(parts);
}

}  // namespace

void RowRanking::add(const at::Tensor& embeddings, const at::Tensor& labels, const at::Tensor& samples) {
  const at::Tensor counted = labels.cpu().ne(kIgnoredTarget).nonzero().flatten();
  const auto kept = [&](const at::Tensor& rows) { return rows.cpu().index_select(0, counted); };
  embeddings_.push_back(unit_rows(kept(embeddings).to(at::kDouble)));
  labels_.push_back(kept(labels).unsqueeze(1));
  samples_.push_back(kept(samples).unsqueeze(1));
}

std::vector<double> RowRanking::values(const std::vector<Metric>& metrics, const Mesh& mesh) const {
  const at::Tensor order = gathered(joined(samples_, at::kLong), mesh).flatten().argsort();
  const auto ordered = [&](const std::vector<at::Tensor>& parts, at::ScalarType type) {
    return gathered(joined(parts, type), mesh).index_select(0, order);
  };
  const at::Tensor rows = ordered(embeddings_, at::kDouble), labels = ordered(labels_, at::kLong).flatten();
  const int64_t count = rows.size(0), part = (count + mesh.world_size() - 1) / mesh.world_size();
  const int64_t begin = std::min(mesh.rank() * part, count), end = std::min(begin + part, count);
  const int64_t step = std::max<int64_t>(1, kScoresAtOnce / std::max<int64_t>(count, 1));

  // [rows, 1 + metrics]: whether a row counts, and its gains; each from one rank.
  at::Tensor gains = at::zeros({count, 1 + static_cast<int64_t>(metrics.size())}, at::kDouble);
  const auto label_of = labels.accessor<int64_t, 1>();
  auto gain_of = gains.accessor<double, 2>();
  for (int64_t first = begin; first < end; first += step) {
    const int64_t length = std::min(step, end - first);
    const at::Tensor cosines = rows.narrow(0, first, length).mm(rows.t());
    const at::Tensor sorted = cosines.argsort(/*stable=*/true, /*dim=*/1, /*descending=*/true);
    const auto by_cosine = sorted.accessor<int64_t, 2>();
    for (int64_t row = first; row < first + length; ++row) {
      std::vector<int64_t> places;
      int64_t place = 0;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t other = by_cosine[row - first][i];
        if (other == row) continue;
        ++place;
        if (label_of[other] == label_of[row]) places.push_back(place);
      }
      if (places.empty()) continue;
      gain_of[row][0] = 1.0;
      for (size_t m = 0; m < metrics.size(); ++m) gain_of[row][static_cast<int64_t>(m) + 1] = gain(metrics[m], places);
    }
  }
  all_reduce(mesh.control(), gains, "what an evaluation ranked").wait();

  std::vector<double> sums(metrics.size() + 1);
  for (int64_t row = 0; row < count; ++row)
    for (size_t m = 0; m < sums.size(); ++m) sums[m] += gain_of[row][static_cast<int64_t>(m)];
  std::vector<double> values;
  for (size_t m = 1; m < sums.size(); ++m) values.push_back(sums[0] > 0.0 ? sums[m] / sums[0] : 0.0);
  return values;
}

}  // namespace modular
