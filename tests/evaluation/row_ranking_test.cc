// Rows are ranked identically on any number of ranks, including ranks without rows.
#include "runtime/evaluation/row_metrics.h"

#include <gtest/gtest.h>

#include "runtime/model/tensors.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

using testing::run_ranks;

constexpr int64_t kRows = 23, kHidden = 8;

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = {find_metric("mrr@10", "sentence-embedding"),
                                          find_metric("recall@3", "sentence-embedding"),
                                          find_metric("ndcg", "sentence-embedding")};
  return all;
}

/// Ranks rows of `texts` texts each, every world_size-th row on each rank; the rank `idle` has none, and the next rank
/// has its rows too.
std::vector<double> rank_rows(const Environment& environment, int64_t idle, int64_t texts) {
  at::manual_seed(3);
  const at::Tensor embeddings = at::randn({kRows, kHidden});
  at::Tensor labels = at::arange(kRows).remainder(7);
  labels[4] = kIgnoredTarget;
  MeshShape shape;
  shape[Axis::dp_shard] = environment.world_size;
  const Mesh mesh(environment, shape);
  RowRanking ranking;
  for (int64_t row = 0; row < kRows; ++row) {
    int64_t owner = row % environment.world_size;
    if (owner == idle) owner = (owner + 1) % environment.world_size;
    if (owner != environment.rank) continue;
    ranking.add(embeddings.narrow(0, row, 1).unflatten(1, {texts, -1}), labels.narrow(0, row, 1),
                at::full({1}, row, at::kLong));
  }
  return ranking.values(metrics(), mesh);
}

TEST(RowRanking, DoesNotDependOnTheNumberOfRanks) {
  for (const int64_t texts : {1, 4}) {
    const std::vector<double> alone = rank_rows({}, /*idle=*/-1, texts);
    EXPECT_GT(alone[0], 0.0);
    EXPECT_LT(alone[0], 1.0);
    for (const auto& [ranks, idle] : {std::pair(2, -1), std::pair(3, 0), std::pair(4, 2)})
      run_ranks(ranks, [&, idle = idle](const Environment& environment) {
        const std::vector<double> together = rank_rows(environment, idle, texts);
        for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(together[i], alone[i], 1e-15);
      });
  }
}

TEST(RowRanking, IsZeroForRowsWithUniqueLabels) {
  RowRanking ranking;
  ranking.add(at::eye(3).unsqueeze(1), at::arange(3), at::arange(3));
  EXPECT_EQ(ranking.values(metrics(), Mesh({}, {})), std::vector<double>(3));
  EXPECT_EQ(RowRanking().values(metrics(), Mesh({}, {})), std::vector<double>(3));
}

}  // namespace
}  // namespace modular
