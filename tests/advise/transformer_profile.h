// Closed-form profiles of decoders, for tests without a model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
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

/// Adds the costs of context parallelism for `cps` x `tps` ranks: docs/guide/parallelism.md's closed forms of
/// attention, in bfloat16. `exchanges`: whether ranks exchange heads where their numbers are divisible and that sends
/// less.
inline void add_contexts(ModelProfile& profile, const DecoderSizes& sizes, const std::vector<int64_t>& cps,
                         const std::vector<int64_t>& tps, bool exchanges = true) {
  constexpr double kBytes = 2.0;
  const double features = static_cast<double>(sizes.hidden) / static_cast<double>(sizes.heads),
               row = static_cast<double>(profile.tokens_of_row), layers = static_cast<double>(sizes.layers);
  for (const int64_t cp : cps)
    for (const int64_t tp : tps) {
      const int64_t heads = sizes.heads / tp, heads_of_keys = std::max<int64_t>(sizes.heads_of_keys / tp, 1);
      const auto ranks = static_cast<double>(cp), keys = 2.0 * static_cast<double>(heads_of_keys) * features;
      const double of_others = (ranks - 1.0) / ranks * kBytes * row * layers;  // of one feature of each position
      const bool divides = heads % cp == 0 && heads_of_keys % cp == 0;
      ContextCost& cost = profile.contexts[{cp, tp}];
      if (exchanges && divides && heads + heads_of_keys <= cp * heads_of_keys) {
        const double queries = 2.0 * static_cast<double>(heads) * features;  // and attention's results
        cost.received = cost.exchanged = 2.0 * of_others / ranks * (queries + keys);
        cost.collectives = 8 * sizes.layers;
      } else {
        cost.received = 2.0 * of_others * keys;
        cost.collectives = 4 * sizes.layers;
        cost.kept = of_others * keys;
      }
    }
}

/// Profile in bfloat16 with rows of `tokens` tokens and AdamW. Activations per layer follow Korthikanti et al.
/// (Reducing Activation Recomputation in Large Transformer Models, equations 2 and 4, without scores): 34 bytes per
/// token and channel, of which tp splits 24, and with sequence parallelism all. Scores add 5 bytes per head and pair of
/// tokens. `waits_to_regather`: whether the backward waits while it gathers the inputs of matrices again, which other
/// systems do during matmuls or, because they keep them, not at all.
inline ModelProfile decoder_profile(const DecoderSizes& sizes, int64_t tokens, std::vector<Recompute> recompute,
                                    bool keeps_scores = false, bool sequence = false, bool waits_to_regather = true) {
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
  profile.lengths = {tokens};
  profile.sequence = sequence;
  profile.zigzag = true;
  profile.flops_of_row = row * (6.0 * (layers * matrices + vocabulary * hidden) + 12.0 * layers * hidden * row);
  profile.width = (2.0 * hidden * hidden * hidden + 2.0 * hidden * keys * keys + network_elements * hidden) / matrices;
  profile.gathered_bytes = 2.0;
  const double scores = keeps_scores ? 5.0 * static_cast<double>(sizes.heads) * row * row : 0.0;
  profile.values = {0.0, (24.0 * row * hidden + scores) * layers, 10.0 * row * hidden * layers};
  profile.boundary = profile.boundary_parts = 2.0 * row * hidden;
  profile.keepings.clear();
  for (const auto& [setting, recomputed] : recompute) {
    Keeping keeping;
    keeping.setting = setting;
    keeping.recomputed = recomputed;
    keeping.one_piece = recomputed > 0.0;
    const bool all = recomputed == 1.0;
    keeping.activations = all ? TpSplit{0.0, 0.0, 2.0 * row * hidden * layers} : profile.values;
    keeping.head = {0.0, 6.0 * row * vocabulary};
    keeping.working = {0.0, 24.0 * row * hidden, 10.0 * row * hidden};
    // After attention and after the MLP, in the forward and the backward, and again with full recomputation; plus the
    // token embedding and the gradient of the head's input.
    keeping.sums_over_tp = (all ? 6 : 4) * sizes.layers + 2;
    keeping.summed_over_tp = static_cast<double>(keeping.sums_over_tp) * 2.0 * row * hidden;
    // A reduce-scatter and an all-gather in place of each all-reduce, and two more all-gathers in the backward of a
    // layer that is not recomputed.
    keeping.gathers_over_tp = 2 * keeping.sums_over_tp + (all || !waits_to_regather ? 0 : 2 * sizes.layers);
    keeping.gathered_over_tp = static_cast<double>(keeping.gathers_over_tp) * 2.0 * row * hidden;
    // A recomputed layer gathers keys again, and keeps only its input.
    if (all) keeping.context_traffic = 1.5, keeping.context_kept = 0.0;
    profile.keepings.push_back(keeping);
  }
  return profile;
}

}  // namespace modular::testing
