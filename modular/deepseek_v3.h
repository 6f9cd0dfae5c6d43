// DeepSeek-V3 (DeepSeek-AI, 2024), as in Hugging Face transformers: DeepSeek-V2 with routers that score experts
// independently and balance them by a bias. The multi-token prediction modules are omitted, as in Transformers.
#pragma once

#include <limits>

#include "modular/deepseek_v2.h"

namespace modular::deepseek_v3 {
MODULAR_FAMILY(DeepseekV3);

struct DeepseekV3Config : deepseek_v2::DeepseekV2Config {
  int64_t vocab_size = 129280;
  int64_t hidden_size = 7168;
  int64_t intermediate_size = 18432;
  int64_t moe_intermediate_size = 2048;
  int64_t num_hidden_layers = 61;
  int64_t num_attention_heads = 128;
  std::optional<int64_t> num_key_value_heads = 128;
  int64_t n_shared_experts = 1;
  int64_t n_routed_experts = 256;
  double routed_scaling_factor = 2.5;
  std::optional<int64_t> n_group = 8;
  std::optional<int64_t> topk_group = 4;
  std::optional<int64_t> num_experts_per_tok = 8;
  int64_t first_k_dense_replace = 3;
  bool norm_topk_prob = true;
  int64_t max_position_embeddings = 4096;
  static constexpr bool mlp_bias = false;
  bool rope_interleave = true;  // the two features of a pair are adjacent

  bool limits_groups() const { return true; }

  void check_groups() const {
    DeepseekV2Config::check_groups();
    if (n_routed_experts / *n_group < 2) throw ConfigError("n_group must leave each group two experts");
  }

 private:
  using DeepseekV2Config::topk_method;
};

struct DeepseekV3AttentionImpl : deepseek_v2::DeepseekV2AttentionImpl {
  explicit DeepseekV3AttentionImpl(const DeepseekV3Config& config)
      : DeepseekV2AttentionImpl(config), rope_interleave(config.rope_interleave) {}

  Tensor apply_rope(const Tensor& x, const RotaryTables& rotary_embeddings) {
    const auto& [cos, sin] = rotary_embeddings;
    return rope_interleave ? rotary_adjacent(x, cos, sin) : rotary(x, cos, sin);
  }

  bool rope_interleave;
};

struct DeepseekV3TopkRouterImpl : deepseek_v2::DeepseekV2TopkRouterImpl {
  explicit DeepseekV3TopkRouterImpl(const DeepseekV3Config& config)
      : DeepseekV2TopkRouterImpl(config),
        e_score_correction_bias(register_buffer("e_score_correction_bias", torch::zeros({config.n_routed_experts}))),
        norm_topk_prob(config.norm_topk_prob) {}

  Tensor group_scores(const Tensor& scores) { return std::get<0>(scores.topk(2, -1)).sum(-1); }

  std::pair<Tensor, Tensor> forward(const Tensor& hidden_states) {
    const Tensor router_logits = logits(hidden_states);
    const Tensor scores = router_logits.sigmoid();
    const Tensor limited = limit_groups(scores + e_score_correction_bias, -std::numeric_limits<double>::infinity());
    const Tensor chosen = std::get<1>(limited.topk(top_k, -1));
    Tensor top = scores.gather(1, chosen);
    if (norm_topk_prob) top = top / (top.sum(-1, /*keepdim=*/true) + 1e-20);
    return {chosen,
            balance_experts(top * routed_scaling_factor, router_logits, scores, chosen, e_score_correction_bias)};
  }

  void reset_parameters() override {
    DeepseekV2TopkRouterImpl::reset_parameters();
    init::zeros_(e_score_correction_bias);
  }

  Tensor e_score_correction_bias;  // [experts], balances how often each expert is selected; no gradient
  bool norm_topk_prob;

 private:
  using DeepseekV2TopkRouterImpl::limits_groups;
};

using DeepseekV3DecoderLayer = deepseek_v2::DeepseekV2DecoderLayer;
using DeepseekV3Model = llama::LlamaModel;
using DeepseekV3ForCausalLM MODEL_ENTRY("causal-lm") = deepseek_v2::DeepseekV2ForCausalLM;
using DeepseekV3ForSequenceClassification MODEL_ENTRY("sequence-classification") =
    deepseek_v2::DeepseekV2ForSequenceClassification;
using DeepseekV3ForTokenClassification MODEL_ENTRY("token-classification") = llama::LlamaForTokenClassification;

}  // namespace modular::deepseek_v3
