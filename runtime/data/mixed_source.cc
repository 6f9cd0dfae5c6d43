#include "runtime/data/mixed_source.h"

#include <algorithm>
#include <iterator>

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
