// Running text, cut into samples of equal length.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/data/masking.h"
#include "runtime/data/packing.h"
#include "runtime/data/samples.h"
#include "runtime/data/token_stream.h"

namespace modular {

class TokenSamples final : public Samples {
 public:
  /// Cuts `stream` into samples of `seq_len` tokens and drops the rest at its end. Throws DataError if there is not one
  /// full sample. Reading throws DataError if a token is not below `vocab_size`. Labels are the tokens themselves, or
  /// those that `masking` chooses by `seed` and the position. With `packing` the documents of a sample do not attend to
  /// each other.
  TokenSamples(TokenStream stream, int64_t seq_len, int64_t vocab_size, const std::optional<Masking>& masking = {},
               uint64_t seed = 0, const std::optional<Packing>& packing = {});

  int64_t count() const override { return stream_.size() / seq_len_; }
  int64_t tokens() const override { return seq_len_; }
  Batch read(std::span<const SamplePosition> positions, int64_t rows) const override;

 private:
  TokenStream stream_;
  int64_t seq_len_, vocab_size_;
  std::optional<Masking> masking_;
  uint64_t seed_;
  std::optional<Packing> packing_;
};

}  // namespace modular
