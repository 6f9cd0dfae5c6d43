// Llama, small enough for a test, with norms whose scale is an offset from one.
#pragma once

#include "modular/llama.h"

namespace modular::tiny {
MODULAR_FAMILY(Tiny);

struct TinyConfig : llama::LlamaConfig {
  int64_t vocab_size = 256;
  int64_t hidden_size = 32;
  int64_t intermediate_size = 64;
  int64_t num_hidden_layers = 2;
  int64_t num_attention_heads = 2;
  int64_t max_position_embeddings = 64;
};

class TinyRMSNormImpl : public llama::LlamaRMSNormImpl {
 public:
  using LlamaRMSNormImpl::LlamaRMSNormImpl;

  Tensor forward(const Tensor& hidden_states) { return rms_norm(hidden_states, weight + 1, eps); }

  void reset_parameters() override { init::zeros_(weight); }
};
TORCH_MODULE(TinyRMSNorm);

using TinyForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;

}  // namespace modular::tiny
