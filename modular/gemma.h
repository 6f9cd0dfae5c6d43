// Gemma (Gemma Team, 2024), as in Hugging Face transformers: Llama with an offset norm, a scaled and tied embedding,
// wide heads and GeLU.
#pragma once

#include "modular/llama.h"

namespace modular::gemma {
MODULAR_FAMILY(Gemma);

struct GemmaConfig : llama::LlamaConfig {
  int64_t vocab_size = 256000;
  int64_t hidden_size = 3072;
  int64_t intermediate_size = 24576;
  int64_t num_hidden_layers = 28;
  int64_t num_attention_heads = 16;
  std::optional<int64_t> num_key_value_heads = 16;
  std::optional<int64_t> head_dim = 256;
  std::string hidden_act = "gelu_pytorch_tanh";
  int64_t max_position_embeddings = 8192;
  std::optional<int64_t> pad_token_id = 0;
  bool tie_word_embeddings = true;
  static constexpr bool mlp_bias = false;
  std::optional<bool> use_bidirectional_attention;

  void finish() {
    if (use_bidirectional_attention.value_or(false))
      throw ConfigError("use_bidirectional_attention is not supported: set it to false");
    if (hidden_act == "gelu") hidden_act = "gelu_pytorch_tanh";  // a legacy value of the official releases
    LlamaConfig::finish();
  }
};

/// RMSNorm whose learned scale is stored minus 1.
struct GemmaRMSNormImpl : llama::LlamaRMSNormImpl {
  GemmaRMSNormImpl(int64_t hidden_size, double eps) : LlamaRMSNormImpl(hidden_size, eps) {
    weight = remake(weight, torch::zeros({hidden_size}));
  }

  Tensor forward(const Tensor& hidden_states) { return rms_norm(hidden_states, weight.to(at::kFloat) + 1.0, eps); }

  void reset_parameters() override { init::zeros_(weight); }
};

struct GemmaModelImpl : llama::LlamaModelImpl {
  Tensor embed(const Tensor& input_ids) {
    const Tensor embedded = LlamaModelImpl::embed(input_ids);
    // A tensor, not a number: the original rounds the factor to the embedding's type.
    return embedded * torch::scalar_tensor(std::sqrt(static_cast<double>(config.hidden_size)), embedded.options());
  }
};

using GemmaForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
using GemmaForSequenceClassification MODEL_ENTRY("sequence-classification") = llama::LlamaForSequenceClassification;
using GemmaForTokenClassification MODEL_ENTRY("token-classification") = llama::LlamaForTokenClassification;

}  // namespace modular::gemma
