// Arcee (Arcee AI, 2025), as in Hugging Face transformers: Llama with an ungated feed-forward network.
#pragma once

#include "modular/llama.h"

namespace modular::arcee {
MODULAR_FAMILY(Arcee);

struct ArceeConfig : llama::LlamaConfig {
  int64_t hidden_size = 2560;
  int64_t intermediate_size = 18432;
  std::string hidden_act = "relu2";
  int64_t max_position_embeddings = 4096;
  double rms_norm_eps = 1e-5;
};

/// Feed-forward network of two layers.
struct ArceeMLPImpl : llama::LlamaMLPImpl {
  Tensor forward(const Tensor& x) { return down_proj(activation(hidden_act, up_proj(x))); }

 private:
  using LlamaMLPImpl::gate_proj;
};

using ArceeForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
using ArceeForSequenceClassification MODEL_ENTRY("sequence-classification") = llama::LlamaForSequenceClassification;
using ArceeForTokenClassification MODEL_ENTRY("token-classification") = llama::LlamaForTokenClassification;

}  // namespace modular::arcee
