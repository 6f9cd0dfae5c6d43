// Closed-form profiles of decoders, for tests without a model.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/advise/layout.h"

namespace modular::testing {

/// Sizes of a decoder. Llama has a gated MLP and grouped-query attention; GPT's MLP has two matrices, and its head is
/// tied to the token embedding.
struct DecoderSizes {
  int64_t layers, hidden, network, heads, heads_of_keys, vocabulary;
  bool gated = true, tied = false;
};

inline constexpr DecoderSizes kLlama2_13B = {40, 5120, 13824, 40, 40, 32000};
inline constexpr DecoderSizes kLlama2_70B = {80, 8192, 28672, 64, 8, 32000};
inline constexpr DecoderSizes kLlama3_8B = {32, 4096, 14336, 32, 8, 128256};
inline constexpr DecoderSizes kLlama3_70B = {80, 8192, 28672, 64, 8, 128256};
inline constexpr DecoderSizes kLlama3_405B = {126, 16384, 53248, 128, 8, 128256};

/// A GPT of Megatron-LM's tables, with their vocabulary size.
constexpr DecoderSizes gpt(int64_t layers, int64_t hidden, int64_t heads) {
  return {layers, hidden, 4 * hidden, heads, heads, 51200, /*gated=*/false, /*tied=*/true};
}

/// A recomputation option and the fraction of a forward that it recomputes.
struct Recompute {
  const char* setting;
  double recomputed;
};

/// Profile in bfloat16 with rows of `tokens` tokens and AdamW. Activations per layer follow Korthikanti et al.
/// (Reducing Activation Recomputation in Large Transformer Models, equation 2, without scores): 34 bytes per token and
/// channel, of which tp splits 24. Scores add 5 bytes per head and pair of tokens.
inline ModelProfile decoder_profile(const DecoderSizes& sizes, int64_t tokens, std::vector<Recompute> recompute,
                                    bool keeps_scores = false) {
  const auto layers = static_cast<double>(sizes.layers), hidden = static_cast<double>(sizes.hidden),
             network = static_cast<double>(sizes.network), vocabulary = static_cast<double>(sizes.vocabulary),
             row = static_cast<double>(tokens);
  const double keys = hidden * static_cast<double>(sizes.heads_of_keys) / static_cast<double>(sizes.heads);
  const double network_elements = (sizes.gated ? 3.0 : 2.0) * hidden * network;
  const double matrices = 2.0 * hidden * hidden + 2.0 * hidden * keys + network_elements;

  ModelProfile profile;
  profile.root = {hidden, (sizes.tied ? 1.0 : 2.0) * vocabulary * hidden};
  profile.largest_unit = profile.last_unit = {2.0 * hidden, matrices};
  profile.units = {2.0 * hidden * layers, matrices * layers};
  profile.unit_count = profile.layers = sizes.layers;
  profile.tokens_of_row = tokens;
  profile.flops_of_row = row * (6.0 * (layers * matrices + vocabulary * hidden) + 12.0 * layers * hidden * row);
  profile.width = (2.0 * hidden * hidden * hidden + 2.0 * hidden * keys * keys + network_elements * hidden) / matrices;
  profile.gathered_bytes = 2.0;
  const double scores = keeps_scores ? 5.0 * static_cast<double>(sizes.heads) * row * row : 0.0;
  profile.values = {10.0 * row * hidden * layers, (24.0 * row * hidden + scores) * layers};
  profile.boundary = 2.0 * row * hidden;
  profile.keepings.clear();
  for (const auto& [setting, recomputed] : recompute) {
    Keeping keeping;
    keeping.setting = setting;
    keeping.recomputed = recomputed;
    keeping.one_piece = recomputed > 0.0;
    const bool all = recomputed == 1.0;
    keeping.activations = all ? TpSplit{2.0 * row * hidden * layers, 0.0} : profile.values;
    keeping.head = {0.0, 6.0 * row * vocabulary};
    keeping.working = {10.0 * row * hidden, 24.0 * row * hidden};
    // After attention and after the MLP, in the forward and the backward, and again with full recomputation; plus the
    // token embedding and the gradient of the head's input.
    keeping.sums_over_tp = (all ? 6 : 4) * sizes.layers + 2;
    keeping.summed_over_tp = static_cast<double>(keeping.sums_over_tp) * 2.0 * row * hidden;
    profile.keepings.push_back(keeping);
  }
  return profile;
}

}  // namespace modular::testing
