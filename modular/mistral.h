// Mistral (Jiang et al., 2023), as in Hugging Face transformers: Llama with a sliding window and without biases.
#pragma once

#include "modular/llama.h"

namespace modular::mistral {
MODULAR_FAMILY(Mistral);

struct MistralConfig : llama::LlamaConfig {
  int64_t intermediate_size = 14336;
  std::optional<int64_t> num_key_value_heads = 8;
  int64_t max_position_embeddings = 4096 * 32;
  std::optional<int64_t> sliding_window = 4096;  // how many keys a query sees; all before it when not given

 private:
  using LlamaConfig::attention_bias;
  using LlamaConfig::mlp_bias;
};

class MistralMLPImpl : public llama::LlamaMLPImpl {
 public:
  explicit MistralMLPImpl(const MistralConfig& config) : LlamaMLPImpl(config) {
    gate_proj = register_module("gate_proj", linear(config.hidden_size, config.intermediate_size, /*bias=*/false));
    up_proj = register_module("up_proj", linear(config.hidden_size, config.intermediate_size, /*bias=*/false));
    down_proj = register_module("down_proj", linear(config.intermediate_size, config.hidden_size, /*bias=*/false));
  }
};
TORCH_MODULE(MistralMLP);

class MistralAttentionImpl : public llama::LlamaAttentionImpl {
 public:
  explicit MistralAttentionImpl(const MistralConfig& config) : LlamaAttentionImpl(config) {
    q_proj = register_module("q_proj", linear(config.hidden_size, num_heads * head_dim, /*bias=*/false));
    k_proj = register_module("k_proj", linear(config.hidden_size, num_key_value_heads * head_dim, /*bias=*/false));
    v_proj = register_module("v_proj", linear(config.hidden_size, num_key_value_heads * head_dim, /*bias=*/false));
    o_proj = register_module("o_proj", linear(num_heads * head_dim, config.hidden_size, /*bias=*/false));
  }
};
TORCH_MODULE(MistralAttention);

class MistralModelImpl : public llama::LlamaModelImpl {
 public:
  using LlamaModelImpl::LlamaModelImpl;

  Tensor attention_mask(const Batch& batch) { return causal_mask(batch, config.sliding_window.value_or(0)); }

  MistralConfig config;
};
TORCH_MODULE(MistralModel);

using MistralForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
using MistralForSequenceClassification MODEL_ENTRY("sequence-classification") = llama::LlamaForSequenceClassification;
using MistralForTokenClassification MODEL_ENTRY("token-classification") = llama::LlamaForTokenClassification;

}  // namespace modular::mistral
