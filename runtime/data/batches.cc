#include "runtime/data/batches.h"

#include <algorithm>
#include <functional>

#include "runtime/data/permutation.h"
#include "runtime/parallel/random/mixed_bits.h"

namespace modular {

int64_t sample_at(int64_t position, int64_t samples, uint64_t seed) {
  const auto epoch = static_cast<uint64_t>(position / samples);
  // Mixed, as the rounds of a permutation count its key up: epochs that did so too would repeat each other's rounds.
  return permuted(position % samples, samples, seed * 0x9e3779b97f4a7c15 + mixed(epoch));
}

std::vector<int64_t> samples_at(const Samples& samples, int64_t begin, int64_t end, uint64_t seed, bool by_length) {
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
    for (int64_t place = first; place < last; ++place) together.push_back(sample_at(place, count, seed));
    std::ranges::stable_sort(together, std::greater(), [&](int64_t sample) { return samples.length(sample); });
    for (; position < std::min(last, end); ++position) found.push_back(together[static_cast<size_t>(position - first)]);
  }
  return found;
}

std::vector<Batch> BatchSource::at(const DataPosition& position) const {
  return at(position.samples, position.samples);
}

std::vector<Batch> BatchSource::at(int64_t position, int64_t place) const {
  return read(position, position + shape_.global(), place);
}

int64_t BatchSource::steps_for(int64_t count) const { return (count + shape_.global() - 1) / shape_.global(); }

std::vector<Batch> BatchSource::step_of_first(int64_t count, int64_t step) const {
  return read(step * shape_.global(), count, step * shape_.global());
}

std::vector<Batch> BatchSource::read(int64_t position, int64_t end, int64_t place) const {
  const int64_t moved = place - position;
  std::vector<Batch> batches;
  const int64_t count = std::max<int64_t>(std::min(end, position + shape_.global()) - position, 0);
  const std::vector<int64_t> step = samples_at(samples_, position, position + count, seed_, by_length_);
  int64_t next = position + shape_.dp_rank;
  for (int64_t i = 0; i < shape_.micro_batches; ++i) {
    std::vector<SamplePosition> places;
    const int64_t first = next;
    for (int64_t row = 0; row < shape_.micro_batch && next < end; ++row, next += shape_.dp_size)
      places.push_back({step[static_cast<size_t>(next - position)], next + moved});
    Batch& batch = batches.emplace_back(samples_.cut(samples_.read(places, shape_.micro_batch), step));
    const at::Tensor samples = first + moved + at::arange(shape_.micro_batch, at::kLong) * shape_.dp_size;
    const int64_t texts = batch.leading().size(0) / shape_.micro_batch;
    batch.samples = (samples.unsqueeze(1) * texts + at::arange(texts, at::kLong)).flatten();
  }
  return batches;
}

}  // namespace modular
