// Profiles of decoders by closed forms, for tests that need no model.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/advise/model_profile.h"

namespace modular::testing {

/// Sizes of a decoder. Llama's are gated and grouped; GPT's network has two matrices and a head tied to its table.
struct DecoderSizes {
  int64_t layers, hidden, network, heads, heads_of_keys, vocabulary;
  bool gated = true, tied = false;
};

inline constexpr DecoderSizes kLlama2_13B = {40, 5120, 13824, 40, 40, 32000};
inline constexpr DecoderSizes kLlama2_70B = {80, 8192, 28672, 64, 8, 32000};
inline constexpr DecoderSizes kLlama3_8B = {32, 4096, 14336, 32, 8, 128256};
inline constexpr DecoderSizes kLlama3_70B = {80, 8192, 28672, 64, 8, 128256};
inline constexpr DecoderSizes kLlama3_405B = {126, 16384, 53248, 128, 8, 128256};

/// A GPT of Megatron's tables, with their vocabulary.
constexpr DecoderSizes gpt(int64_t layers, int64_t hidden, int64_t heads) {
  return {layers, hidden, 4 * hidden, heads, heads, 51200, /*gated=*/false, /*tied=*/true};
}

/// A setting of recomputation and the share of a forward that it runs again.
struct Recompute {
  const char* setting;
  double again;
};

/// In bfloat16, on rows of `tokens`, with AdamW. Of activations a layer keeps what Korthikanti et al. (Reducing
/// Activation Recomputation in Large Transformer Models, equation 2, without scores) count: 34 bytes per token and
/// channel, of which tp divides 24, and with scores 5 a head and pair of tokens.
inline ModelProfile decoder_profile(const DecoderSizes& sizes, int64_t tokens, std::vector<Recompute> recompute,
                                    bool keeps_scores = false) {
  const auto layers = static_cast<double>(sizes.layers), hidden = static_cast<double>(sizes.hidden),
             network = static_cast<double>(sizes.network), vocabulary = static_cast<double>(sizes.vocabulary),
             row = static_cast<double>(tokens);
  const double keys = hidden * static_cast<double>(sizes.heads_of_keys) / static_cast<double>(sizes.heads);
  const double of_network = (sizes.gated ? 3.0 : 2.0) * hidden * network;
  const double matrices = 2.0 * hidden * hidden + 2.0 * hidden * keys + of_network;

  ModelProfile profile;
  profile.root = {hidden, (sizes.tied ? 1.0 : 2.0) * vocabulary * hidden};
  profile.largest_unit = profile.last_unit = {2.0 * hidden, matrices};
  profile.units = {2.0 * hidden * layers, matrices * layers};
  profile.unit_count = profile.layers = sizes.layers;
  profile.tokens_of_row = tokens;
  profile.flops_of_row = row * (6.0 * (layers * matrices + vocabulary * hidden) + 12.0 * layers * hidden * row);
  profile.width = (2.0 * hidden * hidden * hidden + 2.0 * hidden * keys * keys + of_network * hidden) / matrices;
  profile.gathered_bytes = 2.0;
  const double scores = keeps_scores ? 5.0 * static_cast<double>(sizes.heads) * row * row : 0.0;
  profile.values = {10.0 * row * hidden * layers, (24.0 * row * hidden + scores) * layers};
  profile.boundary = 2.0 * row * hidden;
  profile.keepings.clear();
  for (const auto& [setting, again] : recompute) {
    Keeping keeping;
    keeping.setting = setting;
    keeping.again = again;
    keeping.one_piece = again > 0.0;
    const bool all = again == 1.0;
    keeping.activations = all ? Share{2.0 * row * hidden * layers, 0.0} : profile.values;
    keeping.head = {0.0, 6.0 * row * vocabulary};
    keeping.working = {10.0 * row * hidden, 24.0 * row * hidden};
    // After attention and after the network, forward and backward, and once more where all is run again; the table's
    // rows, and the gradient of what the head reads.
    keeping.sums_over_tp = (all ? 6 : 4) * sizes.layers + 2;
    keeping.summed_over_tp = static_cast<double>(keeping.sums_over_tp) * 2.0 * row * hidden;
    profile.keepings.push_back(keeping);
  }
  return profile;
}

}  // namespace modular::testing
