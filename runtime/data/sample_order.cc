#include "runtime/data/sample_order.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <map>
#include <utility>

#include "runtime/parallel/random/mixed_bits.h"

namespace modular {
namespace {

uint64_t make_key(uint64_t seed, int64_t pass, int64_t number) {
  return mixed(mixed(seed) + static_cast<uint64_t>(pass)) * 0x9e3779b97f4a7c15 + mixed(static_cast<uint64_t>(number));
}

}  // namespace

int64_t permuted(int64_t index, int64_t count, uint64_t key) {
  assert(index >= 0 && index < count);
  const int half_bits = (std::bit_width(static_cast<uint64_t>(count - 1)) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t next = left ^ (mixed(right ^ mixed(key + round)) & mask);
      left = right;
      right = next;
    }
    value = left << half_bits | right;
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

/// Order in which a partition reads its own groups in one pass.
struct PartitionOrder::Pass {
  std::vector<int64_t> groups, ends;  // in reading order, and the cumulative number of rows up to each group's end
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
    Pass& order = passes[{pass, partition}];
    if (order.groups.empty()) {
      const int64_t count = (group_count - partition + partitions_ - 1) / partitions_;
      // Groups count down from -1, so that no key equals the key of a group's rows.
      const uint64_t key = make_key(seed, pass, -1 - partition);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t group = permuted(i, count, key) * partitions_ + partition;
        order.groups.push_back(group);
        const auto at = static_cast<size_t>(group);
        order.ends.push_back((order.ends.empty() ? 0 : order.ends.back()) + begin_[at + 1] - begin_[at]);
      }
    }
    const auto slot = static_cast<size_t>(std::ranges::upper_bound(order.ends, index) - order.ends.begin());
    const auto group = static_cast<size_t>(order.groups[slot]);
    const int64_t rows = begin_[group + 1] - begin_[group], row = index - (order.ends[slot] - rows);
    return begin_[group] + permuted(row, rows, make_key(seed, pass, order.groups[slot]));
  };

  std::vector<int64_t> found;
  for (int64_t position = begin; position < end; ++position) {
    const int64_t pass = position / all, first = pass * all, last = first + all;
    // Positions of a partition before `limit` of this pass.
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
    int64_t left = index - rows;  // index among the rows that other partitions leave over
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

Batch SampleRange::read(std::span<const SamplePosition> positions, int64_t samples) const {
  std::vector<SamplePosition> moved(positions.begin(), positions.end());
  for (SamplePosition& position : moved) position.sample += first_;
  return all_->read(moved, samples);
}

Batch SampleRange::cut(Batch batch, std::span<const int64_t> step) const {
  std::vector<int64_t> moved(step.begin(), step.end());
  for (int64_t& sample : moved) sample += first_;
  return all_->cut(std::move(batch), moved);
}

int64_t count_validation_samples(int64_t samples, double part) {
  if (samples < 2) return 0;
  return std::clamp<int64_t>(std::llround(part * static_cast<double>(samples)), 1, samples - 1);
}

}  // namespace modular
