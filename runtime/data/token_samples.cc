#include "runtime/data/token_samples.h"

#include <algorithm>

#include "runtime/parallel/mixed_bits.h"

namespace modular {

TokenSamples::TokenSamples(TokenStream stream, int64_t seq_len, int64_t vocab_size,
                           const std::optional<Masking>& masking, uint64_t seed)
    : stream_(std::move(stream)), seq_len_(seq_len), vocab_size_(vocab_size), masking_(masking), seed_(seed) {
  if (count() == 0)
    throw DataError("the data has " + std::to_string(stream_.size()) +
                    " tokens, less than one sample of train.seq_len = " + std::to_string(seq_len) +
                    ": give more data or shorter samples");
}

Batch TokenSamples::read(std::span<const SamplePlace> places, int64_t rows) const {
  Batch batch;
  batch.input_ids = at::zeros({rows, seq_len_}, at::kLong);
  batch.labels = at::full_like(batch.input_ids, kIgnoredTarget);
  for (size_t row = 0; row < places.size(); ++row) {
    const auto index = static_cast<int64_t>(row);
    const auto length = static_cast<size_t>(seq_len_);
    const std::span tokens(batch.input_ids[index].mutable_data_ptr<int64_t>(), length);
    const std::span labels(batch.labels[index].mutable_data_ptr<int64_t>(), length);
    stream_.read(places[row].sample * seq_len_, tokens);
    const auto [lowest, highest] = std::ranges::minmax(tokens);
    if (lowest < 0 || highest >= vocab_size_)
      throw DataError("the data holds token " + std::to_string(lowest < 0 ? lowest : highest) +
                      " but model.config.vocab_size is " + std::to_string(vocab_size_) +
                      ": use a model with a larger vocabulary, or other data");
    if (masking_)
      mask_tokens(tokens, labels, *masking_, vocab_size_, mixed(seed_) + static_cast<uint64_t>(places[row].position));
    else
      std::ranges::copy(tokens, labels.begin());
  }
  return batch;
}

}  // namespace modular
