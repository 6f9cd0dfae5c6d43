#include "runtime/data/masking.h"

#include "runtime/model/tensors.h"
#include "runtime/parallel/random/mixed_bits.h"

namespace modular {
namespace {

/// In [0, 1).
double uniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

void mask_tokens(std::span<int64_t> tokens, std::span<int64_t> labels, const Masking& masking, int64_t vocab_size,
                 uint64_t key) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const uint64_t chosen = mixed(mixed(key) + i), kind = mixed(chosen), other = mixed(kind);
    const bool is_target = uniform(chosen) < masking.probability;
    labels[i] = is_target ? tokens[i] : kIgnoredTarget;
    if (!is_target) continue;
    if (uniform(kind) < 0.8)
      tokens[i] = masking.token;
    else if (uniform(kind) < 0.9)
      tokens[i] = static_cast<int64_t>(other % static_cast<uint64_t>(vocab_size));
  }
}

}  // namespace modular
