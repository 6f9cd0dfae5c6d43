// Qwen2 (Qwen Team, 2024), as in Hugging Face transformers: Mistral with biases on query, key and value, and with a
// window in some layers only.
#pragma once

#include "modular/mistral.h"

namespace modular::qwen2 {
MODULAR_FAMILY(Qwen2);

struct Qwen2Config : mistral::MistralConfig {
  int64_t vocab_size = 151936;
  int64_t intermediate_size = 22016;
  std::optional<int64_t> num_key_value_heads = 32;
  int64_t max_position_embeddings = 32768;
  static constexpr bool attention_bias = true;
  bool use_sliding_window = false;
  int64_t max_window_layers = 28;        // first layer with a window if layer_types is not given
  std::vector<std::string> layer_types;  // type of each layer: full_attention or sliding_attention

  void finish() {
    if (!use_sliding_window) sliding_window.reset();
    if (layer_types.empty())
      for (int64_t layer = 0; layer < num_hidden_layers; ++layer)
        layer_types.push_back(sliding_window && has_window(layer) ? "sliding_attention" : "full_attention");
    check_layer_types(layer_types, num_hidden_layers, {"full_attention", "sliding_attention"});
    MistralConfig::finish();
  }

  bool has_window(int64_t layer) const { return layer >= max_window_layers; }
};

struct Qwen2AttentionImpl : llama::LlamaAttentionImpl {
  explicit Qwen2AttentionImpl(const Qwen2Config& config) : LlamaAttentionImpl(config) {
    o_proj = remake(o_proj, linear(num_heads * head_dim, config.hidden_size, /*bias=*/false));
  }
};

struct Qwen2DecoderLayerImpl : mistral::Its<llama::LlamaDecoderLayerImpl> {
  Qwen2DecoderLayerImpl(const Qwen2Config& config, int64_t layer)
      : LlamaDecoderLayerImpl(config, layer), is_sliding(config.layer_types.at(layer) == "sliding_attention") {}

  bool is_sliding;
};

struct Qwen2ModelImpl : mistral::MistralModelImpl {
  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    const RotaryTables rotary_embeddings = rotary_positions(batch, hidden_states.scalar_type());
    const AttentionMask full_mask = causal_mask(batch, /*window=*/0);
    const AttentionMask sliding_mask = attention_mask(batch);
    for (auto& layer : *layers)
      hidden_states = layer(hidden_states, rotary_embeddings, layer->is_sliding ? sliding_mask : full_mask);
    return norm(hidden_states);
  }

  Qwen2Config config;
  ModuleListOf<Qwen2DecoderLayer> layers;
};

using Qwen2ForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
using Qwen2ForSequenceClassification MODEL_ENTRY("sequence-classification") = llama::LlamaForSequenceClassification;
using Qwen2ForTokenClassification MODEL_ENTRY("token-classification") = llama::LlamaForTokenClassification;

/// The base model as a sentence encoder (Reimers & Gurevych, Sentence-BERT).
struct MODEL_ENTRY("sentence-embedding", "Qwen2Model") FSDP_UNIT Qwen2ForSentenceEmbeddingImpl : Qwen2ModelImpl {
  Outputs forward(const Batch& batch) {
    Tensor hidden_states = Qwen2ModelImpl::forward(batch);
    return sentence_outputs(sentence_embeddings(hidden_states, batch), batch);
  }
};

}  // namespace modular::qwen2
