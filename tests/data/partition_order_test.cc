// Partitions read each sample once per pass, from complete row groups of their own, in an order with random access.
#include "runtime/data/sample_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace modular {
namespace {

std::vector<int64_t> numbers(int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(PartitionOrder, HasEachSampleOncePerPassWhateverTheGroups) {
  for (const std::vector<int64_t>& groups :
       {std::vector<int64_t>{8, 8, 8, 8}, {10, 10, 10, 3}, {1, 50, 2, 7, 9, 9}, {5}})
    for (const int64_t partitions : {1, 2, 3, 4}) {
      const PartitionOrder order(groups, partitions);
      const int64_t all = std::reduce(groups.begin(), groups.end());
      for (int64_t pass = 0; pass < 5; ++pass) {
        auto seen = order.samples_at(pass * all, (pass + 1) * all, 7);
        std::ranges::sort(seen);
        EXPECT_EQ(seen, numbers(all)) << groups.size() << " groups of " << groups[0] << ", " << partitions;
      }
    }
}

TEST(PartitionOrder, APartitionCompletesAGroupBeforeItBeginsAnother) {
  constexpr int64_t kGroups = 12, kRows = 10, kPartitions = 3;
  const PartitionOrder order(std::vector<int64_t>(kGroups, kRows), kPartitions);
  const auto seen = order.samples_at(0, kGroups * kRows, 1);
  std::set<int64_t> owned;
  for (int64_t partition = 0; partition < kPartitions; ++partition)
    for (int64_t turn = 0; turn < kGroups / kPartitions; ++turn) {
      std::set<int64_t> groups;
      for (int64_t row = 0; row < kRows; ++row)
        groups.insert(seen[static_cast<size_t>((turn * kRows + row) * kPartitions + partition)] / kRows);
      EXPECT_EQ(groups.size(), 1u) << partition << " " << turn;
      EXPECT_EQ(*groups.begin() % kPartitions, partition);
      owned.insert(*groups.begin());
    }
  EXPECT_EQ(owned.size(), static_cast<size_t>(kGroups));
}

TEST(PartitionOrder, IsTheSameFromAnyPositionAndDiffersByPassAndSeed) {
  const PartitionOrder order({9, 4, 12, 7, 7, 1}, 2);
  const auto all = order.samples_at(0, 120, 3);
  for (const int64_t begin : {1, 17, 39, 40, 41, 79})
    EXPECT_EQ(order.samples_at(begin, 120, 3), std::vector(all.begin() + begin, all.end())) << begin;
  const std::vector first(all.begin(), all.begin() + 40), second(all.begin() + 40, all.begin() + 80);
  EXPECT_NE(first, second);
  EXPECT_NE(first, order.samples_at(0, 40, 4));
  // Neither groups nor the rows within one stay in storage order.
  EXPECT_FALSE(std::ranges::is_sorted(PartitionOrder({40}, 1).samples_at(0, 40, 3)));
  const auto grouped = PartitionOrder(std::vector<int64_t>(20, 1), 1).samples_at(0, 20, 3);
  EXPECT_FALSE(std::ranges::is_sorted(grouped));
}

}  // namespace
}  // namespace modular
