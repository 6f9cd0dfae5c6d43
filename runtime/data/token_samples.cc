#include "runtime/data/token_samples.h"

#include <algorithm>

#include "runtime/parallel/random/mixed_bits.h"

namespace modular {

TokenSamples::TokenSamples(TokenStream stream, int64_t seq_len, int64_t vocab_size,
                           const std::optional<Masking>& masking, uint64_t seed, const std::optional<Packing>& packing)
    : stream_(std::move(stream)),
      seq_len_(seq_len),
      vocab_size_(vocab_size),
      masking_(masking),
      seed_(seed),
      packing_(packing) {
  if (count() == 0)
    throw DataError("the data has " + std::to_string(stream_.size()) +
                    " tokens, less than one sample of train.seq_len = " + std::to_string(seq_len) +
                    ": give more data or shorter samples");
}

Batch TokenSamples::read(std::span<const SamplePosition> places, int64_t rows) const {
  Batch batch;
  batch.input_ids = at::zeros({rows, seq_len_}, at::kLong);
  batch.labels = at::full_like(batch.input_ids, kIgnoredTarget);
  if (packing_) batch.documents = at::zeros_like(batch.input_ids);
  if (packing_) batch.position_ids = at::arange(seq_len_).add_(packing_->first_position).repeat({rows, 1});
  for (size_t row = 0; row < places.size(); ++row) {
    const auto of_row = [&](const at::Tensor& tensor) {
      return std::span(tensor[static_cast<int64_t>(row)].mutable_data_ptr<int64_t>(), static_cast<size_t>(seq_len_));
    };
    const std::span tokens = of_row(batch.input_ids), labels = of_row(batch.labels);
    const int64_t begin = places[row].sample * seq_len_;
    stream_.read(begin, tokens);
    std::vector<int64_t> text;  // before some are masked
    if (packing_) text.assign(tokens.begin(), tokens.end());
    const auto wrong = std::ranges::find_if(tokens, [&](int64_t token) { return token < 0 || token >= vocab_size_; });
    if (wrong != tokens.end())
      throw DataError(stream_.get_file(begin + (wrong - tokens.begin())).path.string() + ": holds token " +
                      std::to_string(*wrong) + " but model.config.vocab_size is " + std::to_string(vocab_size_) +
                      ": use a model with a larger vocabulary, or other data");
    if (masking_)
      mask_tokens(tokens, labels, *masking_, vocab_size_, mixed(seed_) + static_cast<uint64_t>(places[row].position));
    else
      std::ranges::copy(tokens, labels.begin());
    if (packing_)
      pack(text, stream_.file_begins(begin, begin + seq_len_), *packing_, of_row(batch.documents),
           of_row(batch.position_ids), labels);
  }
  return batch;
}

}  // namespace modular
