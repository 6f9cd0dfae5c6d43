// Bamba (IBM, Princeton and UIUC, 2024), as in Hugging Face transformers: Llama with Mamba-2's state space layers
// instead of attention in most layers. These are replicated on every tensor-parallel rank, because published models
// have one group.
#pragma once

#include <algorithm>

#include "modular/llama.h"
#include "modular/mamba2.h"

namespace modular::bamba {
MODULAR_FAMILY(Bamba, .members = {{"Mamba2Config::num_heads", "mamba_n_heads"},
                                  {"Mamba2Config::head_dim", "mamba_d_head"},
                                  {"Mamba2Config::n_groups", "mamba_n_groups"},
                                  {"Mamba2Config::state_size", "mamba_d_state"},
                                  {"Mamba2Config::conv_kernel", "mamba_d_conv"},
                                  {"Mamba2Config::chunk_size", "mamba_chunk_size"},
                                  {"Mamba2Config::use_conv_bias", "mamba_conv_bias"},
                                  {"Mamba2Config::use_bias", "mamba_proj_bias"},
                                  {"Mamba2Config::layer_norm_epsilon", "rms_norm_eps"},
                                  {"LlamaDecoderLayer::mlp", "feed_forward"},
                                  {"LlamaDecoderLayer::post_attention_layernorm", "pre_ff_layernorm"},
                                  {"LlamaModel::norm", "final_layernorm"}});

struct BambaConfig : llama::LlamaConfig {
  int64_t vocab_size = 128000;
  int64_t intermediate_size = 14336;
  std::optional<int64_t> num_key_value_heads = 8;
  int64_t max_position_embeddings = 262144;
  double rms_norm_eps = 1e-5;
  std::optional<int64_t> pad_token_id = 0;
  RopeParameters rope_parameters = partial_rotary(0.5);
  std::optional<int64_t> num_logits_to_keep = 1;           // for generation; unused
  std::optional<std::vector<int64_t>> attn_layer_indices;  // layers with attention
  int64_t mamba_n_heads = 128;
  std::optional<int64_t> mamba_d_head;  // mamba_expand * hidden_size / mamba_n_heads when not given
  int64_t mamba_n_groups = 1;
  int64_t mamba_d_state = 256;
  int64_t mamba_d_conv = 4;
  int64_t mamba_expand = 2;
  int64_t mamba_chunk_size = 256;
  bool mamba_conv_bias = true;
  bool mamba_proj_bias = false;
  std::optional<std::vector<double>> time_step_limit = {{0.0, std::numeric_limits<double>::infinity()}};
  double z_loss_coefficient = 0.0;

  void finish() {
    LlamaConfig::finish();
    if (mamba_n_heads < 1) throw ConfigError("mamba_n_heads must be at least 1");
    if (!mamba_d_head) mamba_d_head = mamba_expand * hidden_size / mamba_n_heads;
    if (mamba_n_heads * *mamba_d_head != mamba_expand * hidden_size)
      throw ConfigError("mamba_n_heads * mamba_d_head must be mamba_expand * hidden_size");
    if (mamba_n_groups < 1 || mamba_n_heads % mamba_n_groups != 0)
      throw ConfigError("mamba_n_heads must be a multiple of mamba_n_groups");
    if (mamba_chunk_size < 1) throw ConfigError("mamba_chunk_size must be at least 1");
    if (!time_step_limit || time_step_limit->size() != 2)
      throw ConfigError("time_step_limit must have two numbers, the smallest and the largest step");
    if (z_loss_coefficient != 0.0) throw ConfigError("z_loss_coefficient is not supported: set it to 0.0");
  }

  bool has_attention(int64_t layer) const {
    return attn_layer_indices &&
           std::find(attn_layer_indices->begin(), attn_layer_indices->end(), layer) != attn_layer_indices->end();
  }
};

struct BambaRMSNormGatedImpl : mamba2::Mamba2RMSNormGatedImpl {
  TP_NONE int64_t num_heads;
  TP_NONE int64_t n_groups;
  TP_NONE Tensor weight;
};

struct BambaConv1dImpl : mamba2::Mamba2Conv1dImpl {
  explicit BambaConv1dImpl(const BambaConfig& config)
      : Mamba2Conv1dImpl(config), initializer_range(config.initializer_range) {}

  void reset_parameters() override {
    init::normal_(weight, 0.0, initializer_range);
    init::zeros_(bias);
  }

  double initializer_range;
  TP_NONE int64_t num_heads;
  TP_NONE int64_t n_groups;
  TP_NONE Tensor weight;
  TP_NONE Tensor bias;
};

struct BambaMixerImpl : mamba2::Mamba2MixerImpl {
  void reset_parameters() override {
    Module::reset_parameters();
    init::log_rates_(A_log);
    init::ones_(dt_bias);
    init::ones_(D);
  }

  BambaConfig config;
  TP_NONE int64_t num_heads;
  TP_NONE int64_t n_groups;
  TP_NONE nn::Linear in_proj{nullptr};
  TP_NONE Tensor dt_bias;
  TP_NONE Tensor A_log;
  TP_NONE Tensor D;
  TP_NONE nn::Linear out_proj{nullptr};
};

/// Attention or a state space layer, followed by a feed-forward network.
struct FSDP_UNIT BambaDecoderLayerImpl : llama::LlamaDecoderLayerImpl {
  BambaDecoderLayerImpl(const BambaConfig& config, int64_t layer) : LlamaDecoderLayerImpl(config, layer) {
    remove(self_attn);
    if (config.has_attention(layer)) {
      self_attn = llama::LlamaAttention(config);
    } else {
      mamba = BambaMixer(config);
    }
  }

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask,
                 const Tensor& padding) {
    const Tensor normed = input_layernorm(hidden_states);
    const Tensor residual =
        hidden_states + (mamba ? mamba(normed, padding) : self_attn(normed, rotary_embeddings, mask));
    return residual + mlp(post_attention_layernorm(residual));
  }

  llama::LlamaAttention self_attn{nullptr};  // one of these two
  BambaMixer mamba{nullptr};
};

struct BambaModelImpl : llama::LlamaModelImpl {
  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    const RotaryTables rotary_embeddings = rotary_positions(batch, hidden_states.scalar_type());
    const AttentionMask mask = attention_mask(batch);
    for (auto& layer : *layers) hidden_states = layer(hidden_states, rotary_embeddings, mask, batch.attention_mask);
    return norm(hidden_states);
  }

  ModuleListOf<BambaDecoderLayer> layers;
};

using BambaForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;

}  // namespace modular::bamba
