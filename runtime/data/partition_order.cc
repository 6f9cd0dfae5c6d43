#include "runtime/data/partition_order.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/data/permutation.h"
#include "runtime/parallel/random/mixed_bits.h"

namespace modular {
namespace {

uint64_t make_key(uint64_t seed, int64_t pass, int64_t number) {
  return mixed(mixed(seed) + static_cast<uint64_t>(pass)) * 0x9e3779b97f4a7c15 + mixed(static_cast<uint64_t>(number));
}

}  // namespace

/// What a partition draws from its own groups in one pass.
struct PartitionOrder::Pass {
  std::vector<int64_t> groups, ends;  // in the order of drawing, and how many rows there are up to each one's end
};

PartitionOrder::PartitionOrder(std::vector<int64_t> rows_of_groups, int64_t partitions)
    : begin_{0}, rows_(static_cast<size_t>(partitions)), partitions_(partitions) {
  for (size_t group = 0; group < rows_of_groups.size(); ++group) {
    begin_.push_back(begin_.back() + rows_of_groups[group]);
    rows_[group % rows_.size()] += rows_of_groups[group];
  }
}

std::vector<int64_t> PartitionOrder::samples_at(int64_t begin, int64_t end, uint64_t seed) const {
  const int64_t all = begin_.back(), group_count = static_cast<int64_t>(begin_.size()) - 1;
  std::map<std::pair<int64_t, int64_t>, Pass> passes;  // by pass and partition
  const auto own = [&](int64_t pass, int64_t partition, int64_t index) {
    Pass& drawn = passes[{pass, partition}];
    if (drawn.groups.empty()) {
      const int64_t count = (group_count - partition + partitions_ - 1) / partitions_;
      // Groups count down from -1, so that no key is that of the rows of a group.
      const uint64_t key = make_key(seed, pass, -1 - partition);
      for (int64_t place = 0; place < count; ++place) {
        const int64_t group = permuted(place, count, key) * partitions_ + partition;
        drawn.groups.push_back(group);
        const auto at = static_cast<size_t>(group);
        drawn.ends.push_back((drawn.ends.empty() ? 0 : drawn.ends.back()) + begin_[at + 1] - begin_[at]);
      }
    }
    const auto place = static_cast<size_t>(std::ranges::upper_bound(drawn.ends, index) - drawn.ends.begin());
    const auto group = static_cast<size_t>(drawn.groups[place]);
    const int64_t rows = begin_[group + 1] - begin_[group], row = index - (drawn.ends[place] - rows);
    return begin_[group] + permuted(row, rows, make_key(seed, pass, drawn.groups[place]));
  };

  std::vector<int64_t> found;
  for (int64_t position = begin; position < end; ++position) {
    const int64_t pass = position / all, first = pass * all, last = first + all;
    // Of a partition, the positions before `limit` of this pass.
    const auto positions = [&](int64_t partition, int64_t limit) {
      const int64_t skipped = (partition - first % partitions_ + partitions_) % partitions_;
      return std::max<int64_t>((limit - first - skipped + partitions_ - 1) / partitions_, 0);
    };
    const int64_t partition = position % partitions_, index = positions(partition, position);
    const int64_t rows = rows_[static_cast<size_t>(partition)];
    if (index < rows) {
      found.push_back(own(pass, partition, index));
      continue;
    }
    int64_t left = index - rows;  // among the rows that are left to others
    for (int64_t other = 0; other < partition; ++other)
      left += std::max<int64_t>(positions(other, last) - rows_[static_cast<size_t>(other)], 0);
    for (int64_t other = 0; other < partitions_; ++other) {
      const int64_t share = positions(other, last);
      const int64_t leaves = std::max<int64_t>(rows_[static_cast<size_t>(other)] - share, 0);
      if (left < leaves) {
        found.push_back(own(pass, other, share + left));
        break;
      }
      left -= leaves;
    }
  }
  return found;
}

}  // namespace modular
