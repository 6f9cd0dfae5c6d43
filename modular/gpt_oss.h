// GPT-OSS (OpenAI, 2025), as in Hugging Face transformers: Llama with biases, attention sinks, a window in every second
// layer, and experts with biases and clamped features instead of the feed-forward network.
#pragma once

#include "modular/mixtral.h"
#include "modular/qwen2.h"

namespace modular::gpt_oss {
MODULAR_FAMILY(GptOss, .title = "GPT-OSS", .members = {{"gate", "router"}});

/// RoPE options if the config gives none: YaRN from 4096 positions to 32 times as many.
inline RopeParameters long_context() {
  RopeParameters rope = rotary_base(150000.0);
  rope.rope_type = "yarn";
  rope.factor = 32.0;
  rope.original_max_position_embeddings = 4096;
  rope.beta_fast = 32.0;
  rope.beta_slow = 1.0;
  rope.truncate = false;
  return rope;
}

struct GptOssConfig : llama::LlamaConfig {
  int64_t vocab_size = 201088;
  int64_t hidden_size = 2880;
  int64_t intermediate_size = 2880;
  int64_t num_hidden_layers = 36;
  int64_t num_attention_heads = 64;
  std::optional<int64_t> num_key_value_heads = 8;
  std::optional<int64_t> head_dim = 64;
  int64_t max_position_embeddings = 131072;
  double rms_norm_eps = 1e-5;
  RopeParameters rope_parameters = long_context();
  bool attention_bias = true;
  std::optional<int64_t> sliding_window = 128;  // keys per query in layers with a window
  std::vector<std::string> layer_types;         // type of each layer: full_attention or sliding_attention
  int64_t num_experts_per_tok = 4;
  int64_t num_local_experts = 128;
  double swiglu_alpha = 1.702;        // factor of the gate in its sigmoid
  double swiglu_limit = 7.0;          // limit of gate and up
  bool output_router_logits = false;  // train with the routers' auxiliary loss, scaled by router_aux_loss_coef
  double router_aux_loss_coef = 0.001;

  void finish() {
    check_experts(num_experts_per_tok, num_local_experts);
    if (attention_dropout != 0.0)
      throw ConfigError("attention with sinks has no dropout: set attention_dropout to 0.0");
    if (layer_types.empty())
      for (int64_t layer = 0; layer < num_hidden_layers; ++layer)
        layer_types.push_back(layer % 2 == 0 ? "sliding_attention" : "full_attention");
    check_layer_types(layer_types, num_hidden_layers, {"full_attention", "sliding_attention"});
    LlamaConfig::finish();
  }

 private:
  using LlamaConfig::mlp_bias;
};

/// Rounds once, after multiplying by its scale.
struct GptOssRMSNormImpl : llama::LlamaRMSNormImpl {
  Tensor forward(const Tensor& hidden_states) { return rms_norm(hidden_states, weight.to(at::kFloat), eps); }
};

struct GptOssAttentionImpl : llama::LlamaAttentionImpl {
  explicit GptOssAttentionImpl(const GptOssConfig& config)
      : LlamaAttentionImpl(config), sinks(register_parameter("sinks", torch::empty({config.num_attention_heads}))) {}

  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const RotaryTables& rotary_embeddings,
                const AttentionMask& mask) {
    const auto& [cos, sin] = rotary_embeddings;
    return attention_with_sinks(rotary(query, cos, sin), rotary(key, cos, sin), value, mask, scaling, sinks);
  }

  void reset_parameters() override {
    LlamaAttentionImpl::reset_parameters();
    init::normal_(sinks, 0.0, initial_std());
  }

  TP_SHARD(0) Tensor sinks;  // [heads], logits that take part in each query's softmax

 private:
  using LlamaAttentionImpl::attention_dropout;
};

/// The weights and biases of all experts. Gate and up features are interleaved.
struct GptOssExpertsImpl : mixtral::MixtralExpertsImpl {
  GptOssExpertsImpl(const GptOssConfig& config, int64_t num_experts, int64_t intermediate_size)
      : MixtralExpertsImpl(config, num_experts, intermediate_size),
        gate_up_proj_bias(register_parameter("gate_up_proj_bias", torch::empty({num_experts, 2 * intermediate_size}))),
        down_proj_bias(register_parameter("down_proj_bias", torch::empty({num_experts, config.hidden_size}))),
        alpha(config.swiglu_alpha),
        limit(config.swiglu_limit) {
    gate_up_proj = remake(gate_up_proj, torch::empty({num_experts, config.hidden_size, 2 * intermediate_size}));
    down_proj = remake(down_proj, torch::empty({num_experts, intermediate_size, config.hidden_size}));
  }

  Tensor forward(const Tensor& hidden_states, const Tensor& chosen, const Tensor& weights) {
    const Tensor mixed =
        mix_clamped_experts(hidden_states, gate_up_proj, gate_up_proj_bias, down_proj, chosen, weights, alpha, limit);
    // The chosen experts' biases, by the router's weights. Added here, they count once for any number of tp ranks.
    const Tensor routed = at::zeros({chosen.size(0), down_proj_bias.size(0)}, weights.options());
    return mixed + routed.scatter(1, chosen, weights).matmul(down_proj_bias);
  }

  void reset_parameters() override {
    MixtralExpertsImpl::reset_parameters();
    init::zeros_(gate_up_proj_bias);
    init::zeros_(down_proj_bias);
  }

  TP_SHARD(2) Tensor gate_up_proj;       // [experts, hidden, 2 * intermediate]
  TP_SHARD(1) Tensor gate_up_proj_bias;  // [experts, 2 * intermediate]
  TP_SHARD(1) Tensor down_proj;          // [experts, intermediate, hidden]
  Tensor down_proj_bias;                 // [experts, hidden]
  double alpha, limit;

 private:
  using MixtralExpertsImpl::hidden_act;
};

struct GptOssTopKRouterImpl : mixtral::MixtralTopKRouterImpl {
  GptOssTopKRouterImpl(const GptOssConfig& config, int64_t num_experts)
      : MixtralTopKRouterImpl(config, num_experts), bias(register_parameter("bias", torch::empty({num_experts}))) {}

  std::pair<Tensor, Tensor> forward(const Tensor& hidden_states) {
    const Tensor logits = at::linear(hidden_states, weight, bias);
    const auto [top, chosen] = logits.topk(top_k, -1);
    const Tensor exact = logits.to(at::kFloat);
    return {chosen, balance_experts(top.softmax(-1), exact, exact.softmax(-1), chosen)};
  }

  void reset_parameters() override {
    MixtralTopKRouterImpl::reset_parameters();
    init::normal_(bias, 0.0, initial_std());
  }

  Tensor bias;  // [experts]
};

using GptOssMLP = mixtral::MixtralSparseMoeBlock;
using GptOssDecoderLayer = qwen2::Qwen2DecoderLayer;
using GptOssModel = qwen2::Qwen2Model;
using GptOssForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
using GptOssForSequenceClassification MODEL_ENTRY("sequence-classification") = llama::LlamaForSequenceClassification;
using GptOssForTokenClassification MODEL_ENTRY("token-classification") = llama::LlamaForTokenClassification;

}  // namespace modular::gpt_oss
