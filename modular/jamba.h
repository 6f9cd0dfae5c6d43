// Jamba (Lieber et al., 2024), as in Hugging Face transformers: attention layers without positions interleaved with
// Mamba's state space layers (Gu & Dao), and mixtures of experts instead of every other feed-forward network.
#pragma once

#include "modular/bamba.h"
#include "modular/mixtral.h"

namespace modular::jamba {
MODULAR_FAMILY(Jamba, .members = {{"MixtralConfig::num_local_experts", "num_experts"},
                                  {"MixtralSparseMoeBlock::gate", "router"}});

struct JambaConfig : mixtral::MixtralConfig {
  int64_t vocab_size = 65536;
  int64_t max_position_embeddings = 262144;
  double rms_norm_eps = 1e-6;
  std::optional<int64_t> pad_token_id = 0;
  int64_t num_local_experts = 16;
  int64_t expert_layer_period = 2;
  int64_t expert_layer_offset = 1;
  int64_t attn_layer_period = 8;
  int64_t attn_layer_offset = 4;
  int64_t mamba_d_state = 16;
  int64_t mamba_d_conv = 4;
  int64_t mamba_expand = 2;
  std::optional<int64_t> mamba_dt_rank;  // a sixteenth of hidden_size when not given
  bool mamba_conv_bias = true;
  bool mamba_proj_bias = false;
  bool use_mamba_kernels = true;  // these three select between implementations of the original; no effect
  bool use_mambapy = false;
  bool use_associative_scan = true;

  void finish() {
    LlamaConfig::finish();
    if (!mamba_dt_rank) mamba_dt_rank = (hidden_size + 15) / 16;
    check_experts(num_experts_per_tok, num_local_experts);
    if (attn_layer_offset >= attn_layer_period)
      throw ConfigError("attn_layer_offset must be smaller than attn_layer_period");
    if (expert_layer_offset >= expert_layer_period)
      throw ConfigError("expert_layer_offset must be smaller than expert_layer_period");
  }

  bool has_attention(int64_t layer) const { return layer % attn_layer_period == attn_layer_offset; }
  bool has_experts(int64_t layer) const {
    return num_local_experts > 1 && layer % expert_layer_period == expert_layer_offset;
  }

  static std::vector<StoredAs> stored_as() {
    return {
        {"model.layers.*.feed_forward.experts.gate_up_proj",
         {"model.layers.*.feed_forward.experts.#.gate_proj.weight",
          "model.layers.*.feed_forward.experts.#.up_proj.weight"}},
        {"model.layers.*.feed_forward.experts.down_proj", {"model.layers.*.feed_forward.experts.#.down_proj.weight"}},
    };
  }

 private:
  using MixtralConfig::rope_parameters, MixtralConfig::router_jitter_noise, MixtralConfig::sliding_window;
};

/// Causal convolution over positions, per channel.
class JambaConv1dImpl : public Module {
 public:
  explicit JambaConv1dImpl(const JambaConfig& config)
      : Module(config.initializer_range),
        hidden_size(config.hidden_size),
        hidden_act(config.hidden_act),
        weight(
            register_parameter("weight", torch::empty({config.mamba_expand * hidden_size, 1, config.mamba_d_conv}))) {
    if (config.mamba_conv_bias) bias = register_parameter("bias", torch::empty({config.mamba_expand * hidden_size}));
  }

  Tensor forward(const Tensor& x) { return activation(hidden_act, causal_conv1d(x, weight, bias)); }

  void reset_parameters() override {
    init::normal_(weight, 0.0, initial_std());
    init::zeros_(bias);
  }

  TP_LOCAL int64_t hidden_size;
  std::string hidden_act;
  TP_SHARD(0) Tensor weight;  // [channels, 1, kernel]
  TP_SHARD(0) Tensor bias;    // [channels]
};

/// Mamba's state space layer, with norms on the inputs of its coefficients.
class STANDS_FOR(bamba::BambaMixer) JambaMambaMixerImpl : public Module {
 public:
  explicit JambaMambaMixerImpl(const JambaConfig& config)
      : Module(config.initializer_range),
        hidden_size(config.hidden_size),
        expand(config.mamba_expand),
        rank(*config.mamba_dt_rank),
        state_size(config.mamba_d_state),
        conv1d(JambaConv1d(config)),
        in_proj(linear(hidden_size, 2 * expand * hidden_size, config.mamba_proj_bias)),
        x_proj(linear(expand * hidden_size, rank + 2 * state_size, /*bias=*/false)),
        dt_proj(linear(rank, expand * hidden_size, /*bias=*/true)),
        A_log(register_parameter("A_log", torch::empty({expand * hidden_size, state_size}))),
        D(register_parameter("D", torch::empty({expand * hidden_size}))),
        out_proj(linear(expand * hidden_size, hidden_size, config.mamba_proj_bias)),
        dt_layernorm(llama::LlamaRMSNorm(rank, config.rms_norm_eps)),
        b_layernorm(llama::LlamaRMSNorm(state_size, config.rms_norm_eps)),
        c_layernorm(llama::LlamaRMSNorm(state_size, config.rms_norm_eps)) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& padding) {
    const auto projected = in_proj(without_padding(hidden_states, padding)).chunk(2, -1);
    const Tensor x = without_padding(conv1d(projected[0]), padding);
    const auto coefficients = x_proj(x).split_with_sizes({rank, state_size, state_size}, -1);
    const Tensor step = at::softplus(at::linear(dt_layernorm(coefficients[0]), dt_proj->weight) + dt_proj->bias);
    const Tensor B = b_layernorm(coefficients[1]), C = c_layernorm(coefficients[2]);
    const Tensor scanned = selective_scan(x, step, -at::exp(A_log.to(at::kFloat)), B, C, D.to(at::kFloat));
    return out_proj((scanned * at::silu(projected[1])).to(hidden_states.scalar_type()));
  }

  void reset_parameters() override {
    Module::reset_parameters();
    init::log_rates_(A_log);
    init::ones_(D);
  }

  TP_LOCAL int64_t hidden_size;
  int64_t expand;
  int64_t rank;
  int64_t state_size;
  JambaConv1d conv1d;
  TP_COLWISE_PARTS(expand * hidden_size, expand * hidden_size) nn::Linear in_proj;
  TP_ROWWISE nn::Linear x_proj;
  TP_COLWISE nn::Linear dt_proj;
  TP_SHARD(0) Tensor A_log;  // [channels, state]
  TP_SHARD(0) Tensor D;      // [channels]
  TP_ROWWISE nn::Linear out_proj;
  llama::LlamaRMSNorm dt_layernorm;
  llama::LlamaRMSNorm b_layernorm;
  llama::LlamaRMSNorm c_layernorm;
};

struct JambaAttentionImpl : llama::LlamaAttentionImpl {
  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    Tensor query = q_proj(hidden_states).view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    Tensor key = k_proj(hidden_states).view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    Tensor value = v_proj(hidden_states).view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    return o_proj(attention(query, key, value, mask, scaling, attention_dropout));
  }

 private:
  using LlamaAttentionImpl::attend;
};

struct JambaTopKRouterImpl : mixtral::MixtralTopKRouterImpl {
  std::pair<Tensor, Tensor> forward(const Tensor& hidden_states) {
    const Tensor logits = at::linear(hidden_states, weight).to(at::kFloat);
    const Tensor probabilities = logits.softmax(-1);
    const auto [top, chosen] = probabilities.topk(top_k, -1);
    return {chosen, balance_experts(top, logits, probabilities, chosen).to(hidden_states.scalar_type())};
  }
};

struct FSDP_UNIT JambaDecoderLayerImpl : bamba::BambaDecoderLayerImpl {
  JambaDecoderLayerImpl(const JambaConfig& config, int64_t layer) : BambaDecoderLayerImpl(config, layer) {
    remove(mlp);
    if (config.has_experts(layer)) {
      mlp = mixtral::MixtralSparseMoeBlock(config);
    } else {
      mlp = llama::LlamaMLP(config);
    }
  }

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask, const Tensor& padding) {
    const Tensor normed = input_layernorm(hidden_states);
    const Tensor residual = hidden_states + (mamba ? mamba(normed, padding) : self_attn(normed, mask));
    return residual + mlp(post_attention_layernorm(residual));
  }

  JambaAttention self_attn{nullptr};  // one of these two
  JambaMambaMixer mamba{nullptr};
  OneOf<mixtral::MixtralSparseMoeBlock, llama::LlamaMLP> mlp{nullptr};
};

struct JambaModelImpl : bamba::BambaModelImpl {
  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    const AttentionMask mask = attention_mask(batch);
    for (auto& layer : *layers) hidden_states = layer(hidden_states, mask, batch.attention_mask);
    return norm(hidden_states);
  }

  ModuleListOf<JambaDecoderLayer> layers;

 private:
  using BambaModelImpl::rotary_positions;
};

using JambaForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
using JambaForSequenceClassification MODEL_ENTRY("sequence-classification") = llama::LlamaForSequenceClassification;

}  // namespace modular::jamba
