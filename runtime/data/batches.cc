#include "runtime/data/batches.h"

#include "runtime/data/permutation.h"

namespace modular {

int64_t sample_at(int64_t position, int64_t samples, uint64_t seed) {
  const int64_t epoch = position / samples;
  return permuted(position % samples, samples, seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(epoch));
}

std::vector<Batch> BatchSource::at(const DataPosition& position) const {
  return read(position.samples, position.samples + shape_.global());
}

std::vector<std::vector<Batch>> BatchSource::first(int64_t count) const {
  std::vector<std::vector<Batch>> steps;
  for (int64_t begin = 0; begin < count; begin += shape_.global()) steps.push_back(read(begin, count));
  return steps;
}

std::vector<Batch> BatchSource::read(int64_t position, int64_t end) const {
  std::vector<Batch> batches;
  int64_t next = position + shape_.dp_rank;
  for (int64_t i = 0; i < shape_.micro_batches; ++i) {
    std::vector<SamplePlace> places;
    for (int64_t row = 0; row < shape_.micro_batch && next < end; ++row, next += shape_.dp_size)
      places.push_back({sample_at(next, samples(), seed_), next});
    batches.push_back(samples_.read(places, shape_.micro_batch));
  }
  return batches;
}

}  // namespace modular
