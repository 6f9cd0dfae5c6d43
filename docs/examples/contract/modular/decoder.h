// A small decoder from nothing: rotary positions, fused query, key and value, a gated feed-forward network.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::decoder {
MODULAR_FAMILY(Decoder);

struct DecoderConfig : Config {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 512;
  int64_t intermediate_size = 1376;
  int64_t num_hidden_layers = 8;
  int64_t num_attention_heads = 8;
  int64_t num_key_value_heads = 4;
  int64_t head_dim = 64;
  std::string hidden_act = "silu";
  int64_t max_position_embeddings = 2048;
  int64_t sliding_window = 512;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  std::optional<double> attn_logit_softcapping;
  std::optional<double> final_logit_softcapping = 30.0;
  std::optional<int64_t> pad_token_id;
  bool tie_word_embeddings = true;
  int64_t num_labels = 2;
  std::optional<std::string> problem_type;
  RopeParameters rope_parameters = rotary_base(1e6);

  void finish() {
    if (num_attention_heads % num_key_value_heads != 0)
      throw ConfigError("num_attention_heads must be a multiple of num_key_value_heads");
    check_labels(num_labels, problem_type);
  }
};

class DecoderRMSNormImpl : public Module {
 public:
  DecoderRMSNormImpl(int64_t hidden_size, double eps)
      : weight(register_parameter("weight", torch::ones({hidden_size}))), eps(eps) {}

  Tensor forward(const Tensor& hidden_states) { return rms_norm(hidden_states, weight, eps); }

  void reset_parameters() override { init::ones_(weight); }

  Tensor weight;  // [hidden]
  double eps;
};
TORCH_MODULE(DecoderRMSNorm);

class DecoderMLPImpl : public Module {
 public:
  explicit DecoderMLPImpl(const DecoderConfig& config)
      : Module(config.initializer_range),
        gate_proj(register_module("gate_proj", linear(config.hidden_size, config.intermediate_size, /*bias=*/false))),
        up_proj(register_module("up_proj", linear(config.hidden_size, config.intermediate_size, /*bias=*/false))),
        down_proj(register_module("down_proj", linear(config.intermediate_size, config.hidden_size, /*bias=*/false))),
        hidden_act(config.hidden_act) {}

  Tensor forward(const Tensor& x) { return down_proj(gated_activation(hidden_act, gate_proj(x), up_proj(x))); }

  TP_COLWISE nn::Linear gate_proj;
  TP_COLWISE nn::Linear up_proj;
  TP_ROWWISE nn::Linear down_proj;
  std::string hidden_act;
};
TORCH_MODULE(DecoderMLP);

class DecoderAttentionImpl : public Module {
 public:
  explicit DecoderAttentionImpl(const DecoderConfig& config)
      : Module(config.initializer_range),
        num_heads(config.num_attention_heads),
        num_key_value_heads(config.num_key_value_heads),
        head_dim(config.head_dim),
        scaling(1.0 / std::sqrt(static_cast<double>(head_dim))),
        softcap(config.attn_logit_softcapping),
        qkv_proj(register_module(
            "qkv_proj", linear(config.hidden_size, (num_heads + 2 * num_key_value_heads) * head_dim, /*bias=*/false))),
        o_proj(register_module("o_proj", linear(num_heads * head_dim, config.hidden_size, /*bias=*/false))) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const auto parts =
        qkv_proj(hidden_states)
            .split_with_sizes({num_heads * head_dim, num_key_value_heads * head_dim, num_key_value_heads * head_dim},
                              -1);
    const Tensor query = parts[0].view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor key = parts[1].view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    const Tensor value = parts[2].view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    return o_proj(attend(query, key, value, rotary_embeddings, mask));
  }

  /// Turns queries and keys to their positions and mixes the values.
  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const RotaryTables& rotary_embeddings,
                const AttentionMask& mask) {
    const auto& [cos, sin] = rotary_embeddings;
    return attention(rotary(query, cos, sin), rotary(key, cos, sin), value, mask, scaling, softcap);
  }

  TP_LOCAL int64_t num_heads;
  TP_LOCAL int64_t num_key_value_heads;
  int64_t head_dim;
  double scaling;
  std::optional<double> softcap;
  TP_COLWISE_PARTS(num_heads * head_dim, num_key_value_heads * head_dim, num_key_value_heads * head_dim)
  nn::Linear qkv_proj;
  TP_ROWWISE nn::Linear o_proj;
};
TORCH_MODULE(DecoderAttention);

class FSDP_UNIT DecoderLayerImpl : public Module {
 public:
  DecoderLayerImpl(const DecoderConfig& config, int64_t /*layer*/)
      : self_attn(register_module("self_attn", DecoderAttention(config))),
        mlp(register_module("mlp", DecoderMLP(config))),
        input_layernorm(register_module("input_layernorm", DecoderRMSNorm(config.hidden_size, config.rms_norm_eps))),
        post_attention_layernorm(
            register_module("post_attention_layernorm", DecoderRMSNorm(config.hidden_size, config.rms_norm_eps))) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const Tensor residual = hidden_states + self_attn(input_layernorm(hidden_states), rotary_embeddings, mask);
    return residual + mlp(post_attention_layernorm(residual));
  }

  DecoderAttention self_attn;
  DecoderMLP mlp;
  DecoderRMSNorm input_layernorm;
  DecoderRMSNorm post_attention_layernorm;
};
TORCH_MODULE(DecoderLayer);

class DecoderModelImpl : public Module {
 public:
  explicit DecoderModelImpl(const DecoderConfig& config)
      : Module(config.initializer_range),
        config(config),
        embed_tokens(
            register_module("embed_tokens", embedding(config.vocab_size, config.hidden_size, config.pad_token_id))),
        layers(register_module("layers", ModuleListOf<DecoderLayer>())),
        norm(register_module("norm", DecoderRMSNorm(config.hidden_size, config.rms_norm_eps))) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(DecoderLayer(config, layer));
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed_tokens(batch.input_ids);
    const RotaryTables rotary_embeddings = rotary_tables(
        config.rope_parameters, config.head_dim, config.max_position_embeddings, batch, hidden_states.scalar_type());
    const AttentionMask mask = causal_mask(batch, config.sliding_window);
    for (auto& layer : *layers) hidden_states = layer(hidden_states, rotary_embeddings, mask);
    return norm(hidden_states);
  }

  DecoderConfig config;
  PP_FIRST TP_VOCAB nn::Embedding embed_tokens;
  PP_SPLIT ModuleListOf<DecoderLayer> layers;
  PP_LAST DecoderRMSNorm norm;
};
TORCH_MODULE(DecoderModel);

class MODEL_ENTRY("causal-lm") FSDP_UNIT DecoderForCausalLMImpl : public Module {
 public:
  explicit DecoderForCausalLMImpl(const DecoderConfig& config)
      : Module(config.initializer_range),
        config(config),
        model(register_module("model", DecoderModel(config))),
        lm_head(register_module("lm_head", linear(config.hidden_size, config.vocab_size, /*bias=*/false))) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    const Tensor logits = soft_cap(lm_head(hidden_states), config.final_logit_softcapping);
    Outputs outputs;
    if (batch.labels.defined()) {
      const Tensor targets = next_tokens(batch.labels);
      outputs.loss_sum = cross_entropy(logits, targets);
      outputs.token_count = count_targets(targets);
    }
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }

  DecoderConfig config;
  DecoderModel model;
  PP_LAST TP_VOCAB TIED_TO(model->embed_tokens->weight) nn::Linear lm_head;
};
TORCH_MODULE(DecoderForCausalLM);

class MODEL_ENTRY("sequence-classification") FSDP_UNIT DecoderForSequenceClassificationImpl : public Module {
 public:
  explicit DecoderForSequenceClassificationImpl(const DecoderConfig& config)
      : Module(config.initializer_range),
        config(config),
        model(register_module("model", DecoderModel(config))),
        score(register_module("score", linear(config.hidden_size, config.num_labels, /*bias=*/false))) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    const Tensor logits = score(last_tokens(hidden_states, batch.input_ids, config.pad_token_id));
    return cross_entropy_outputs(logits, batch, same_labels);
  }

  DecoderConfig config;
  DecoderModel model;
  PP_LAST nn::Linear score;
};
TORCH_MODULE(DecoderForSequenceClassification);

class MODEL_ENTRY("token-classification") FSDP_UNIT DecoderForTokenClassificationImpl : public Module {
 public:
  explicit DecoderForTokenClassificationImpl(const DecoderConfig& config)
      : Module(config.initializer_range),
        config(config),
        model(register_module("model", DecoderModel(config))),
        score(register_module("score", linear(config.hidden_size, config.num_labels, /*bias=*/true))) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    return classification_outputs(score(hidden_states), batch, config.problem_type);
  }

  DecoderConfig config;
  DecoderModel model;
  PP_LAST nn::Linear score;
};
TORCH_MODULE(DecoderForTokenClassification);

class MODEL_ENTRY("sentence-embedding") FSDP_UNIT DecoderForSentencesImpl : public Module {
 public:
  explicit DecoderForSentencesImpl(const DecoderConfig& config)
      : model(register_module("model", DecoderModel(config))) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    return sentence_outputs(sentence_embeddings(hidden_states, batch), batch);
  }

  DecoderModel model;
};
TORCH_MODULE(DecoderForSentences);

}  // namespace modular::decoder
