// Qwen2-MoE (Qwen Team, 2024), as in Hugging Face transformers: Qwen2 with experts in most layers, and a shared expert
// for every token.
#pragma once

#include <algorithm>

#include "modular/mixtral.h"
#include "modular/qwen2.h"

namespace modular::qwen2_moe {
MODULAR_FAMILY(Qwen2Moe, .members = {{"LlamaConfig::attention_bias", "qkv_bias"}});

struct Qwen2MoeConfig : qwen2::Qwen2Config {
  int64_t hidden_size = 2048;
  int64_t intermediate_size = 5632;  // for layers without experts
  int64_t num_hidden_layers = 24;
  int64_t num_attention_heads = 16;
  std::optional<int64_t> num_key_value_heads = 16;
  bool attention_bias = true;
  int64_t max_window_layers = 28;   // end of the layers with a window if layer_types is not given
  int64_t decoder_sparse_step = 1;  // one of this many layers has experts
  int64_t moe_intermediate_size = 1408;
  int64_t shared_expert_intermediate_size = 5632;
  int64_t num_experts_per_tok = 4;
  int64_t num_experts = 60;
  bool norm_topk_prob = false;
  bool output_router_logits = false;  // train with the routers' auxiliary loss, scaled by router_aux_loss_coef
  double router_aux_loss_coef = 0.001;
  std::vector<int64_t> mlp_only_layers;  // layers without experts

  void finish() {
    check_layers_with_experts();
    Qwen2Config::finish();
    if (!use_sliding_window) sliding_window = 0;
  }

  void check_layers_with_experts() const {
    if (decoder_sparse_step < 1) throw ConfigError("decoder_sparse_step must be at least 1");
    check_experts(num_experts_per_tok, num_experts);
  }

  bool has_window(int64_t layer) const { return layer % 2 == 0 && layer < max_window_layers; }

  bool has_experts(int64_t layer) const {
    return (layer + 1) % decoder_sparse_step == 0 &&
           std::find(mlp_only_layers.begin(), mlp_only_layers.end(), layer) == mlp_only_layers.end();
  }

  static std::vector<StoredAs> stored_as() { return stored_expert_by_expert(); }
};

struct Qwen2MoeMLPImpl : llama::LlamaMLPImpl {
  Qwen2MoeMLPImpl(const Qwen2MoeConfig& config, int64_t intermediate_size) : LlamaMLPImpl(config) {
    gate_proj = remake(gate_proj, linear(config.hidden_size, intermediate_size, /*bias=*/false));
    up_proj = remake(up_proj, linear(config.hidden_size, intermediate_size, /*bias=*/false));
    down_proj = remake(down_proj, linear(intermediate_size, config.hidden_size, /*bias=*/false));
  }
};

struct Qwen2MoeTopKRouterImpl : mixtral::MixtralTopKRouterImpl {
  Qwen2MoeTopKRouterImpl(const Qwen2MoeConfig& config, int64_t num_experts)
      : MixtralTopKRouterImpl(config, num_experts), norm_topk_prob(config.norm_topk_prob) {}

  std::pair<Tensor, Tensor> forward(const Tensor& hidden_states) {
    const Tensor logits = at::linear(hidden_states, weight).to(at::kFloat);
    const Tensor probabilities = logits.softmax(-1);
    auto [top, chosen] = probabilities.topk(top_k, -1);
    if (norm_topk_prob) top = top / top.sum(-1, /*keepdim=*/true);
    return {chosen, balance_experts(top, logits, probabilities, chosen).to(hidden_states.scalar_type())};
  }

  bool norm_topk_prob;
};

/// A mixture of experts, plus a gated shared expert for every token.
struct Qwen2MoeSparseMoeBlockImpl : mixtral::MixtralSparseMoeBlockImpl {
  explicit Qwen2MoeSparseMoeBlockImpl(const Qwen2MoeConfig& config)
      : MixtralSparseMoeBlockImpl(config),
        shared_expert(Qwen2MoeMLP(config, config.shared_expert_intermediate_size)),
        shared_expert_gate(linear(config.hidden_size, 1, /*bias=*/false)) {
    gate = Qwen2MoeTopKRouter(config, config.num_experts);
    experts = remake(experts, mixtral::MixtralExperts(config, config.num_experts, config.moe_intermediate_size));
  }

  Tensor forward(const Tensor& hidden_states) {
    const Tensor shared = shared_expert(hidden_states);
    return MixtralSparseMoeBlockImpl::forward(hidden_states) + shared_expert_gate(hidden_states).sigmoid() * shared;
  }

  Qwen2MoeTopKRouter gate;
  Qwen2MoeMLP shared_expert;
  nn::Linear shared_expert_gate;
};

struct Qwen2MoeDecoderLayerImpl : qwen2::Qwen2DecoderLayerImpl {
  Qwen2MoeDecoderLayerImpl(const Qwen2MoeConfig& config, int64_t layer) : Qwen2DecoderLayerImpl(config, layer) {
    remove(mlp);
    if (config.has_experts(layer))
      mlp = Qwen2MoeSparseMoeBlock(config);
    else
      mlp = Qwen2MoeMLP(config, config.intermediate_size);
  }

  OneOf<Qwen2MoeSparseMoeBlock, Qwen2MoeMLP> mlp{nullptr};
};

using Qwen2MoeForCausalLM MODEL_ENTRY("causal-lm") = qwen2::Qwen2ForCausalLM;
using Qwen2MoeForSequenceClassification MODEL_ENTRY("sequence-classification") = qwen2::Qwen2ForSequenceClassification;
using Qwen2MoeForTokenClassification MODEL_ENTRY("token-classification") = qwen2::Qwen2ForTokenClassification;

}  // namespace modular::qwen2_moe
