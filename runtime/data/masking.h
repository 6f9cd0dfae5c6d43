// Targets of masked language modeling (Devlin et al., BERT), sampled again each time a sample is seen (Liu et al.,
// RoBERTa).
#pragma once

#include <cstdint>
#include <span>

namespace modular {

struct Masking {
  double probability = 0.15;  // fraction of the tokens that become targets
  int64_t token = -1;         // [MASK], which replaces a masked token
};

/// Chooses targets among the `tokens` of one sample and writes them into `labels`, with kIgnoredTarget elsewhere. Of
/// the targets, 80 % become the mask token, 10 % a token below `vocab_size`, and 10 % stay. The choice depends only on
/// `key`, so that every mesh and a resumed run choose the same.
void mask_tokens(std::span<int64_t> tokens, std::span<int64_t> labels, const Masking& masking, int64_t vocab_size,
                 uint64_t key);

}  // namespace modular
