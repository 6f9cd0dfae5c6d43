#include "runtime/data/batches.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>

#include "runtime/data/sample_order.h"
#include "runtime/parallel/random/mixed_bits.h"

namespace modular {
namespace {

std::vector<double> get_set_weights(const std::vector<MixedSource::Set>& sets) {
  std::vector<double> weights;
  std::ranges::transform(sets, std::back_inserter(weights), &MixedSource::Set::weight);
  return weights;
}

/// Position of a run in each of `count` sets.
std::vector<DataPosition::OfSet> in_sets(const DataPosition& position, size_t count) {
  std::vector<DataPosition::OfSet> sets = position.sets;
  sets.resize(count);
  return sets;
}

}  // namespace

int64_t sample_at(int64_t position, int64_t samples, uint64_t seed) {
  const auto epoch = static_cast<uint64_t>(position / samples);
  // The epoch is mixed because the rounds of a permutation increment its key: keys of consecutive epochs would repeat
  // each other's rounds.
  return permuted(position % samples, samples, seed * 0x9e3779b97f4a7c15 + mixed(epoch));
}

std::vector<int64_t> samples_at(const Dataset& samples, int64_t begin, int64_t end, uint64_t seed, bool by_length) {
  if (const PartitionOrder* const order = samples.partition_order()) return order->samples_at(begin, end, seed);
  constexpr int64_t kSorted = 1024;
  const int64_t count = samples.count(), sorted = std::clamp<int64_t>(count / 4, 1, kSorted);
  std::vector<int64_t> found;
  for (int64_t position = begin; position < end;) {
    if (!by_length) {
      found.push_back(sample_at(position++, count, seed));
      continue;
    }
    const int64_t pass = position / count * count, first = pass + (position - pass) / sorted * sorted;
    const int64_t last = std::min(first + sorted, pass + count);
    std::vector<int64_t> together;
    for (int64_t next = first; next < last; ++next) together.push_back(sample_at(next, count, seed));
    std::ranges::stable_sort(together, std::greater(), [&](int64_t sample) { return samples.length(sample); });
    for (; position < std::min(last, end); ++position) found.push_back(together[static_cast<size_t>(position - first)]);
  }
  return found;
}

std::vector<Batch> BatchSource::at(const DataPosition& position) const {
  return at(position.samples, position.samples);
}

std::vector<Batch> BatchSource::at(int64_t position, int64_t run_position) const {
  return read(position, position + shape_.global(), run_position);
}

int64_t BatchSource::steps_for(int64_t count) const { return (count + shape_.global() - 1) / shape_.global(); }

std::vector<Batch> BatchSource::step_of_first(int64_t count, int64_t step) const {
  return read(step * shape_.global(), count, step * shape_.global());
}

std::vector<Batch> BatchSource::read(int64_t position, int64_t end, int64_t run_position) const {
  const int64_t moved = run_position - position;
  std::vector<Batch> batches;
  const int64_t count = std::max<int64_t>(std::min(end, position + shape_.global()) - position, 0);
  const std::vector<int64_t> step = samples_at(samples_, position, position + count, seed_, by_length_);
  int64_t next = position + shape_.dp_rank;
  for (int64_t i = 0; i < shape_.micro_batches; ++i) {
    std::vector<SamplePosition> positions;
    const int64_t first = next;
    for (int64_t row = 0; row < shape_.micro_batch && next < end; ++row, next += shape_.dp_size)
      positions.push_back({step[static_cast<size_t>(next - position)], next + moved});
    Batch& batch = batches.emplace_back(samples_.cut(samples_.read(positions, shape_.micro_batch), step));
    const at::Tensor samples = first + moved + at::arange(shape_.micro_batch, at::kLong) * shape_.dp_size;
    const int64_t texts = batch.leading().size(0) / shape_.micro_batch;
    batch.samples = (samples.unsqueeze(1) * texts + at::arange(texts, at::kLong)).flatten();
  }
  return batches;
}

Apportionment::Apportionment(std::span<const double> weights, uint64_t seed) : seed_(seed) {
  const double largest = *std::ranges::max_element(weights);  // so that their sum stays finite
  double sum = 0.0;
  for (const double weight : weights) sum += weight / largest;
  // Integers, so that all machines deal the same way.
  for (const double weight : weights)
    shares_.push_back(std::max<int64_t>(std::llround(weight / largest / sum * 0x1p24), 1));
  all_ = std::accumulate(shares_.begin(), shares_.end(), int64_t{0});
}

size_t Apportionment::next(std::span<const int64_t> turns) const {
  const auto count = static_cast<int64_t>(shares_.size());
  if (count == 1) return 0;
  const int64_t turn = std::accumulate(turns.begin(), turns.end(), int64_t{1});
  const auto tie = [&](size_t i) { return mixed(seed_ ^ mixed(static_cast<uint64_t>(turn * count) + i)); };
  const int64_t parts = 2 * count - 2;
  size_t best = shares_.size();
  int64_t best_slack = 0;
  for (size_t i = 0; i < shares_.size(); ++i) {
    // Number of turns owed, in shares of a turn. Only a candidate that is owed part of a turn may be next, and of these
    // the one whose turn would otherwise be late first.
    const int64_t owed = turn * shares_[i] - turns[i] * all_;
    if (owed * parts < all_) continue;
    const int64_t slack = all_ * (parts - 1) - owed * parts;
    const int64_t ahead = best == shares_.size() ? -1 : slack * shares_[best] - best_slack * shares_[i];
    if (ahead < 0 || (ahead == 0 && tie(i) < tie(best))) best = i, best_slack = slack;
  }
  return best;
}

MixedSource::MixedSource(const std::vector<Set>& sets, const BatchShape& shape, uint64_t seed, bool by_length)
    : apportionment_(get_set_weights(sets), seed), step_samples_(shape.global()) {
  for (const Set& set : sets) sources_.emplace_back(*set.samples, shape, seed, by_length);
}

int64_t MixedSource::samples() const {
  int64_t samples = 0;
  for (const BatchSource& source : sources_) samples += source.samples();
  return samples;
}

size_t MixedSource::set_at(const DataPosition& position) const {
  std::vector<int64_t> turns;
  for (const auto& set : in_sets(position, sources_.size())) turns.push_back(set.steps);
  return apportionment_.next(turns);
}

std::vector<Batch> MixedSource::at(const DataPosition& position) const {
  if (sources_.size() == 1) return sources_.front().at(position);
  const size_t set = set_at(position);
  return sources_[set].at(in_sets(position, sources_.size())[set].samples, position.samples);
}

DataPosition MixedSource::after(DataPosition position) const {
  if (sources_.size() > 1) {
    const size_t set = set_at(position);
    position.sets = in_sets(position, sources_.size());
    position.sets[set].samples += step_samples_;
    ++position.sets[set].steps;
  }
  position.samples += step_samples_;
  return position;
}

}  // namespace modular
