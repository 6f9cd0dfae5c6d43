// Gemma 3 (Gemma Team, 2025), its language model, as in Hugging Face transformers: Gemma 2 with norms on queries and
// keys, five sliding-window layers for each full layer, and separate RoPE parameters for each kind.
#pragma once

#include "modular/gemma2.h"

namespace modular::gemma3_text {
MODULAR_FAMILY(Gemma3);

struct Gemma3Config : gemma2::Gemma2Config {
  int64_t vocab_size = 262208;
  int64_t max_position_embeddings = 131072;
  std::optional<double> final_logit_softcapping;
  std::optional<double> attn_logit_softcapping;
  std::optional<bool> use_bidirectional_attention = false;
  LayerRopeParameters rope_parameters = {rotary_base(1e6), rotary_base(1e4)};
  int64_t sliding_window_pattern = 6;  // one of this many layers is without a window if layer_types is not given

  bool has_window(int64_t layer) const { return (layer + 1) % sliding_window_pattern != 0; }
};

struct Gemma3AttentionImpl : gemma2::Gemma2AttentionImpl {
  explicit Gemma3AttentionImpl(const Gemma3Config& config)
      : Gemma2AttentionImpl(config),
        q_norm(gemma::GemmaRMSNorm(head_dim, config.rms_norm_eps)),
        k_norm(gemma::GemmaRMSNorm(head_dim, config.rms_norm_eps)) {}

  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const RotaryTables& rotary_embeddings,
                const AttentionMask& mask) {
    // The original ignores attn_logit_softcapping here.
    const auto& [cos, sin] = rotary_embeddings;
    return attention(rotary(q_norm(query), cos, sin), rotary(k_norm(key), cos, sin), value, mask, scaling,
                     attention_dropout);
  }

  gemma::GemmaRMSNorm q_norm;
  gemma::GemmaRMSNorm k_norm;

 private:
  using Gemma2AttentionImpl::softcap;
};

struct Gemma3ModelImpl : gemma2::Gemma2ModelImpl {
  /// Rotary tables of one kind of layer for the batch's positions, in the embeddings' type.
  RotaryTables rotary_positions(const RopeParameters& rope, const Batch& batch, at::ScalarType type) {
    return rotary_tables(rope, *config.head_dim, config.max_position_embeddings, batch, type);
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    const at::ScalarType type = hidden_states.scalar_type();
    const RotaryTables full_positions = rotary_positions(config.rope_parameters.full_attention, batch, type);
    const RotaryTables sliding_positions = rotary_positions(config.rope_parameters.sliding_attention, batch, type);
    const AttentionMask full_mask = attention_mask(batch);
    const AttentionMask sliding_mask = causal_mask(batch, config.sliding_window.value_or(0));
    for (auto& layer : *layers)
      hidden_states = layer(hidden_states, layer->is_sliding ? sliding_positions : full_positions,
                            layer->is_sliding ? sliding_mask : full_mask);
    return norm(hidden_states);
  }

  Gemma3Config config;
};

using Gemma3ForCausalLM MODEL_ENTRY("causal-lm") = gemma2::Gemma2ForCausalLM;
using Gemma3TextForSequenceClassification MODEL_ENTRY("sequence-classification") =
    gemma2::Gemma2ForSequenceClassification;

}  // namespace modular::gemma3_text
