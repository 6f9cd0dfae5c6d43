// Qwen3-MoE (Qwen Team, 2025), as in Hugging Face transformers: Qwen3's attention, Qwen2-MoE's experts without the
// shared one, and the same window for all layers.
#pragma once

#include "modular/qwen2_moe.h"
#include "modular/qwen3.h"

namespace modular::qwen3_moe {
MODULAR_FAMILY(Qwen3Moe,
               .members = {{"num_experts", "num_local_experts"}, {"LlamaConfig::qkv_bias", "attention_bias"}});

struct Qwen3MoeConfig : qwen2_moe::Qwen2MoeConfig {
  int64_t intermediate_size = 6144;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = 4;
  bool attention_bias = false;
  int64_t moe_intermediate_size = 768;
  int64_t num_experts_per_tok = 8;
  int64_t num_experts = 128;

  void finish() {
    check_layers_with_experts();
    if (!use_sliding_window) sliding_window.reset();
    MistralConfig::finish();
  }

 private:
  using Qwen2MoeConfig::has_window, Qwen2MoeConfig::layer_types, Qwen2MoeConfig::max_window_layers,
      Qwen2MoeConfig::shared_expert_intermediate_size;
};

using Qwen3MoeMLP = qwen2_moe::Qwen2MoeMLP;
using Qwen3MoeAttention = qwen3::Qwen3Attention;

struct Qwen3MoeSparseMoeBlockImpl : mixtral::MixtralSparseMoeBlockImpl {
  explicit Qwen3MoeSparseMoeBlockImpl(const Qwen3MoeConfig& config) : MixtralSparseMoeBlockImpl(config) {
    gate = qwen2_moe::Qwen2MoeTopKRouter(config, config.num_experts);
    experts = remake(experts, mixtral::MixtralExperts(config, config.num_experts, config.moe_intermediate_size));
  }

  qwen2_moe::Qwen2MoeTopKRouter gate;
};

struct Qwen3MoeDecoderLayerImpl : qwen2_moe::Qwen2MoeDecoderLayerImpl {
 private:
  using Qwen2MoeDecoderLayerImpl::is_sliding;
};

using Qwen3MoeForCausalLM MODEL_ENTRY("causal-lm") = mistral::MistralForCausalLM;
using Qwen3MoeForSequenceClassification MODEL_ENTRY("sequence-classification") =
    mistral::MistralForSequenceClassification;
using Qwen3MoeForTokenClassification MODEL_ENTRY("token-classification") = mistral::MistralForTokenClassification;

}  // namespace modular::qwen3_moe
