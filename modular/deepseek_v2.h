// DeepSeek-V2 (DeepSeek-AI, 2024), as in Hugging Face transformers: Llama with multi-head latent attention, and experts
// after the first layers.
#pragma once

#include <tuple>

#include "modular/mixtral.h"

namespace modular::deepseek_v2 {
MODULAR_FAMILY(DeepseekV2);

struct DeepseekV2Config : llama::LlamaConfig {
  int64_t vocab_size = 102400;
  int64_t first_k_dense_replace = 0;  // number of first layers, which have no experts
  int64_t kv_lora_rank = 512;         // size of the latent that keys and values are computed from
  std::optional<int64_t> q_lora_rank = 1536;
  std::optional<int64_t> n_group;  // number of expert groups
  int64_t n_routed_experts = 64;
  bool output_router_logits = false;  // has no effect here
  int64_t n_shared_experts = 2;
  int64_t qk_nope_head_dim = 128;  // features of a head without RoPE
  int64_t qk_rope_head_dim = 64;   // features of a head with RoPE
  double routed_scaling_factor = 1.0;
  std::optional<int64_t> topk_group;  // number of groups that a token's experts may be in
  std::string topk_method = "greedy";
  bool norm_topk_prob = false;  // has no effect here
  int64_t v_head_dim = 128;
  std::optional<int64_t> num_experts_per_tok;
  int64_t moe_intermediate_size = 1407;

  void finish() {
    head_dim = qk_rope_head_dim;
    LlamaConfig::finish();
    if (*num_key_value_heads != num_attention_heads)
      throw ConfigError("num_key_value_heads must be num_attention_heads: every head's keys come from one latent");
    check_experts(num_experts_per_tok.value_or(1), n_routed_experts);
    if (limits_groups()) check_groups();
  }

  bool limits_groups() const {
    if (topk_method != "greedy" && topk_method != "group_limited_greedy")
      throw ConfigError("topk_method must be greedy or group_limited_greedy");
    return topk_method == "group_limited_greedy";
  }

  void check_groups() const {
    const int64_t groups = n_group.value_or(0), chosen = topk_group.value_or(0);
    if (groups < 1 || n_routed_experts % groups != 0) throw ConfigError("n_group must divide n_routed_experts");
    if (chosen < 1 || chosen > groups) throw ConfigError("topk_group must be between 1 and n_group");
    if (num_experts_per_tok.value_or(1) > chosen * (n_routed_experts / groups))
      throw ConfigError("num_experts_per_tok must be at most the number of experts in topk_group groups");
  }

  static std::vector<StoredAs> stored_as() { return stored_expert_by_expert(); }
};

struct DeepseekV2MLPImpl : llama::LlamaMLPImpl {
  DeepseekV2MLPImpl(const DeepseekV2Config& config, int64_t intermediate_size) : LlamaMLPImpl(config) {
    gate_proj = remake(gate_proj, linear(config.hidden_size, intermediate_size, config.mlp_bias));
    up_proj = remake(up_proj, linear(config.hidden_size, intermediate_size, config.mlp_bias));
    down_proj = remake(down_proj, linear(intermediate_size, config.hidden_size, config.mlp_bias));
  }
};

/// Attention whose keys and values are computed from a small latent, with RoPE on separate features.
class DeepseekV2AttentionImpl : public Module {
 public:
  explicit DeepseekV2AttentionImpl(const DeepseekV2Config& config)
      : Module(config.initializer_range),
        num_heads(config.num_attention_heads),
        kv_lora_rank(config.kv_lora_rank),
        qk_nope_head_dim(config.qk_nope_head_dim),
        qk_rope_head_dim(config.qk_rope_head_dim),
        v_head_dim(config.v_head_dim),
        scaling(rotary_attention_scale(config.rope_parameters) /
                std::sqrt(static_cast<double>(qk_nope_head_dim + qk_rope_head_dim))),
        kv_a_proj_with_mqa(linear(config.hidden_size, kv_lora_rank + qk_rope_head_dim, config.attention_bias)),
        kv_a_layernorm(llama::LlamaRMSNorm(kv_lora_rank, 1e-6)),
        kv_b_proj(linear(kv_lora_rank, num_heads * (qk_nope_head_dim + v_head_dim), /*bias=*/false)),
        o_proj(linear(num_heads * v_head_dim, config.hidden_size, config.attention_bias)),
        attention_dropout(nn::Dropout(config.attention_dropout)) {
    const int64_t head_dim = qk_nope_head_dim + qk_rope_head_dim;
    if (config.q_lora_rank) {
      q_a_proj = linear(config.hidden_size, *config.q_lora_rank, config.attention_bias);
      q_a_layernorm = llama::LlamaRMSNorm(*config.q_lora_rank, 1e-6);
      q_b_proj = linear(*config.q_lora_rank, num_heads * head_dim, /*bias=*/false);
    } else {
      q_proj = linear(config.hidden_size, num_heads * head_dim, /*bias=*/false);
    }
  }

  /// Queries of all heads: [batch, seq, heads * (nope + rope)].
  Tensor queries(const Tensor& hidden_states) {
    return q_proj ? q_proj(hidden_states) : q_b_proj(q_a_layernorm(q_a_proj(hidden_states)));
  }

  /// Applies RoPE to x [batch, heads, seq, rope].
  Tensor apply_rope(const Tensor& x, const RotaryTables& rotary_embeddings) {
    const auto& [cos, sin] = rotary_embeddings;
    return rotary_adjacent(x.to(at::kFloat), cos, sin).to(x.scalar_type());
  }

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const auto query = queries(hidden_states)
                           .view({batch, seq, num_heads, qk_nope_head_dim + qk_rope_head_dim})
                           .transpose(1, 2)
                           .split_with_sizes({qk_nope_head_dim, qk_rope_head_dim}, -1);
    const auto latent = kv_a_proj_with_mqa(hidden_states).split_with_sizes({kv_lora_rank, qk_rope_head_dim}, -1);
    const auto key_value = kv_b_proj(kv_a_layernorm(latent[0]))
                               .view({batch, seq, num_heads, qk_nope_head_dim + v_head_dim})
                               .transpose(1, 2)
                               .split_with_sizes({qk_nope_head_dim, v_head_dim}, -1);
    // All heads share the features with RoPE.
    const Tensor rotated_key = apply_rope(latent[1].view({batch, 1, seq, qk_rope_head_dim}), rotary_embeddings)
                                   .expand({batch, num_heads, seq, qk_rope_head_dim});
    return o_proj(attention(at::cat({query[0], apply_rope(query[1], rotary_embeddings)}, -1),
                            at::cat({key_value[0], rotated_key}, -1), key_value[1], mask, scaling, attention_dropout));
  }

  TP_LOCAL int64_t num_heads;
  int64_t kv_lora_rank;
  int64_t qk_nope_head_dim;
  int64_t qk_rope_head_dim;
  int64_t v_head_dim;
  double scaling;
  TP_COLWISE nn::Linear q_proj{nullptr};  // or, with a latent for queries too, the three below
  nn::Linear q_a_proj{nullptr};
  llama::LlamaRMSNorm q_a_layernorm{nullptr};
  TP_COLWISE nn::Linear q_b_proj{nullptr};
  nn::Linear kv_a_proj_with_mqa;
  llama::LlamaRMSNorm kv_a_layernorm;
  TP_COLWISE nn::Linear kv_b_proj;
  TP_ROWWISE nn::Linear o_proj;
  nn::Dropout attention_dropout;
};

/// Selects each token's experts, from a few groups if the config limits them.
class DeepseekV2TopkRouterImpl : public Module {
 public:
  explicit DeepseekV2TopkRouterImpl(const DeepseekV2Config& config)
      : Module(config.initializer_range),
        weight(register_parameter("weight", torch::empty({config.n_routed_experts, config.hidden_size}))),
        limits_groups(config.limits_groups()),
        top_k(config.num_experts_per_tok.value_or(0)),
        n_group(config.n_group.value_or(1)),
        topk_group(config.topk_group.value_or(1)),
        routed_scaling_factor(config.routed_scaling_factor) {}

  /// Logits of each expert for `hidden_states` [rows, hidden], in float32: [rows, experts].
  Tensor logits(const Tensor& hidden_states) {
    if (top_k == 0) throw ConfigError("num_experts_per_tok is not given: set the number of experts per token");
    return at::linear(hidden_states.to(at::kFloat), weight.to(at::kFloat));
  }

  /// Scores that select groups, from the scores of their experts [rows, groups, experts per group]: [rows, groups].
  Tensor group_scores(const Tensor& scores) { return scores.amax(-1); }

  /// `scores` [rows, experts], with the value `hidden` outside the best groups.
  Tensor limit_groups(const Tensor& scores, double hidden) {
    const Tensor grouped = scores.view({scores.size(0), n_group, -1});
    const Tensor by_group = group_scores(grouped);
    const Tensor chosen = std::get<1>(by_group.topk(topk_group, -1));
    const Tensor outside = at::ones_like(by_group, at::kBool).scatter(1, chosen, false);
    return grouped.masked_fill(outside.unsqueeze(-1), hidden).flatten(1);
  }

  /// Indices and weights of the experts of each row of `hidden_states` [rows, hidden]: [rows, k].
  std::pair<Tensor, Tensor> forward(const Tensor& hidden_states) {
    const Tensor router_logits = logits(hidden_states);
    const Tensor scores = router_logits.softmax(-1);
    const auto [top, chosen] = (limits_groups ? limit_groups(scores, 0.0) : scores).topk(top_k, -1);
    return {chosen, balance_experts(top * routed_scaling_factor, router_logits, scores, chosen)};
  }

  void reset_parameters() override { init::normal_(weight, 0.0, initial_std()); }

  Tensor weight;  // [experts, hidden]
  bool limits_groups;
  int64_t top_k;
  int64_t n_group;
  int64_t topk_group;
  double routed_scaling_factor;
};

/// A mixture of experts plus shared experts for every token, which form one network.
struct DeepseekV2MoeImpl : mixtral::MixtralSparseMoeBlockImpl {
  explicit DeepseekV2MoeImpl(const DeepseekV2Config& config)
      : MixtralSparseMoeBlockImpl(config),
        shared_experts(DeepseekV2MLP(config, config.n_shared_experts * config.moe_intermediate_size)) {
    gate = DeepseekV2TopkRouter(config);
    experts = remake(experts, mixtral::MixtralExperts(config, config.n_routed_experts, config.moe_intermediate_size));
  }

  Tensor forward(const Tensor& hidden_states) {
    return MixtralSparseMoeBlockImpl::forward(hidden_states) + shared_experts(hidden_states);
  }

  DeepseekV2TopkRouter gate;
  DeepseekV2MLP shared_experts;
};

struct DeepseekV2DecoderLayerImpl : llama::LlamaDecoderLayerImpl {
  DeepseekV2DecoderLayerImpl(const DeepseekV2Config& config, int64_t layer) : LlamaDecoderLayerImpl(config, layer) {
    remove(mlp);
    if (layer >= config.first_k_dense_replace)
      mlp = DeepseekV2Moe(config);
    else
      mlp = DeepseekV2MLP(config, config.intermediate_size);
  }

  OneOf<DeepseekV2Moe, DeepseekV2MLP> mlp{nullptr};
};

struct DeepseekV2ModelImpl : llama::LlamaModelImpl {
  /// In float32, independent of the embeddings' type: RoPE is computed in float32.
  RotaryTables rotary_positions(const Batch& batch, at::ScalarType) {
    return LlamaModelImpl::rotary_positions(batch, at::kFloat);
  }
};

using DeepseekV2ForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
using DeepseekV2ForSequenceClassification MODEL_ENTRY("sequence-classification") =
    llama::LlamaForSequenceClassification;

}  // namespace modular::deepseek_v2
