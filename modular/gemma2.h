// Gemma 2 (Gemma Team, 2024), as in Hugging Face transformers: Gemma with additional norms after attention and
// feed-forward network, a window in every second layer and soft caps on scores and logits.
#pragma once

#include <vector>

#include "modular/gemma.h"

namespace modular::gemma2 {
MODULAR_FAMILY(Gemma2, .members = {{"LlamaConfig::hidden_act", "hidden_activation"}});

struct Gemma2Config : gemma::GemmaConfig {
  int64_t hidden_size = 2304;
  int64_t intermediate_size = 9216;
  int64_t num_hidden_layers = 26;
  int64_t num_attention_heads = 8;
  std::optional<int64_t> num_key_value_heads = 4;
  int64_t query_pre_attn_scalar = 256;  // scores are multiplied by its inverse square root
  std::optional<int64_t> sliding_window = 4096;
  std::vector<std::string> layer_types;  // type of each layer: full_attention or sliding_attention
  std::optional<double> final_logit_softcapping = 30.0;
  std::optional<double> attn_logit_softcapping = 50.0;

  /// Whether a layer has a window if layer_types is not given.
  bool has_window(int64_t layer) const { return layer % 2 == 0; }

  void finish() {
    if (layer_types.empty())
      for (int64_t layer = 0; layer < num_hidden_layers; ++layer)
        layer_types.push_back(has_window(layer) ? "sliding_attention" : "full_attention");
    check_layer_types(layer_types, num_hidden_layers, {"full_attention", "sliding_attention"});
    if (use_bidirectional_attention.value_or(false))
      throw ConfigError("use_bidirectional_attention is not supported: set it to false");
    LlamaConfig::finish();
  }
};

struct Gemma2AttentionImpl : llama::LlamaAttentionImpl {
  explicit Gemma2AttentionImpl(const Gemma2Config& config)
      : LlamaAttentionImpl(config), softcap(config.attn_logit_softcapping) {
    scaling = 1.0 / std::sqrt(static_cast<double>(config.query_pre_attn_scalar));
  }

  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const RotaryTables& rotary_embeddings,
                const AttentionMask& mask) {
    const auto& [cos, sin] = rotary_embeddings;
    return attention(rotary(query, cos, sin), rotary(key, cos, sin), value, mask, scaling, attention_dropout, softcap);
  }

  std::optional<double> softcap;
};

struct Gemma2DecoderLayerImpl : gemma::Its<llama::LlamaDecoderLayerImpl> {
  Gemma2DecoderLayerImpl(const Gemma2Config& config, int64_t layer)
      : LlamaDecoderLayerImpl(config, layer),
        pre_feedforward_layernorm(gemma::GemmaRMSNorm(config.hidden_size, config.rms_norm_eps)),
        post_feedforward_layernorm(gemma::GemmaRMSNorm(config.hidden_size, config.rms_norm_eps)),
        is_sliding(config.layer_types.at(layer) == "sliding_attention") {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const Tensor mixed = self_attn(input_layernorm(hidden_states), rotary_embeddings, mask);
    const Tensor residual = hidden_states + post_attention_layernorm(mixed);
    return residual + post_feedforward_layernorm(mlp(pre_feedforward_layernorm(residual)));
  }

  gemma::GemmaRMSNorm pre_feedforward_layernorm;
  gemma::GemmaRMSNorm post_feedforward_layernorm;
  bool is_sliding;
};

struct Gemma2ModelImpl : gemma::GemmaModelImpl {
  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    const RotaryTables rotary_embeddings = rotary_positions(batch, hidden_states.scalar_type());
    const AttentionMask full_mask = attention_mask(batch);
    const AttentionMask sliding_mask = causal_mask(batch, config.sliding_window.value_or(0));
    for (auto& layer : *layers)
      hidden_states = layer(hidden_states, rotary_embeddings, layer->is_sliding ? sliding_mask : full_mask);
    return norm(hidden_states);
  }

  Gemma2Config config;
  ModuleListOf<Gemma2DecoderLayer> layers;
};

struct MODEL_ENTRY("causal-lm") Gemma2ForCausalLMImpl : gemma::Its<llama::LlamaForCausalLMImpl> {
  Tensor project(const Tensor& hidden_states) {
    return soft_cap(LlamaForCausalLMImpl::project(hidden_states), config.final_logit_softcapping);
  }

  Gemma2Config config;
};

using Gemma2ForSequenceClassification MODEL_ENTRY("sequence-classification") = gemma::GemmaForSequenceClassification;
using Gemma2ForTokenClassification MODEL_ENTRY("token-classification") = gemma::GemmaForTokenClassification;

}  // namespace modular::gemma2
