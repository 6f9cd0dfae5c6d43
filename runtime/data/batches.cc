#include "runtime/data/batches.h"

#include <algorithm>

#include "runtime/data/permutation.h"

namespace modular {

int64_t sample_at(int64_t position, int64_t samples, uint64_t seed) {
  const int64_t epoch = position / samples;
  return permuted(position % samples, samples, seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(epoch));
}

BatchSource::BatchSource(const TokenStream& stream, const BatchShape& shape, uint64_t seed, int64_t vocab_size,
                         const std::optional<Masking>& masking)
    : stream_(stream),
      shape_(shape),
      seed_(seed),
      vocab_size_(vocab_size),
      masking_(masking),
      samples_(stream.size() / shape.seq_len) {
  if (samples_ == 0)
    throw DataError("the data has " + std::to_string(stream.size()) +
                    " tokens, less than one sample of train.seq_len = " + std::to_string(shape.seq_len) +
                    ": give more data or shorter samples");
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
  std::vector<Batch> batches(static_cast<size_t>(shape_.micro_batches));
  int64_t next = position + shape_.dp_rank;
  for (auto& batch : batches) {
    batch.input_ids = at::zeros({shape_.micro_batch, shape_.seq_len}, at::kLong);
    batch.labels = at::full_like(batch.input_ids, kIgnoredTarget);
    int64_t used = 0;
    for (; used < shape_.micro_batch && next < end; ++used, next += shape_.dp_size) {
      const auto length = static_cast<size_t>(shape_.seq_len);
      const std::span tokens(batch.input_ids[used].mutable_data_ptr<int64_t>(), length);
      const std::span labels(batch.labels[used].mutable_data_ptr<int64_t>(), length);
      stream_.read(sample_at(next, samples_, seed_) * shape_.seq_len, tokens);
      if (const auto highest = std::ranges::max(tokens); highest >= vocab_size_)
        throw DataError("the data holds token " + std::to_string(highest) + " but model.config.vocab_size is " +
                        std::to_string(vocab_size_) + ": use a model with a larger vocabulary, or other data");
      if (masking_)
        mask_tokens(tokens, labels, *masking_, vocab_size_, mixed(seed_) + static_cast<uint64_t>(next));
      else
        std::ranges::copy(tokens, labels.begin());
    }
  }
  return batches;
}

}  // namespace modular
