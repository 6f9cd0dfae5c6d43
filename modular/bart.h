// BART (Lewis et al., 2019), as in Hugging Face transformers: T5's arrangement of an encoder and a decoder that attends
// to its output, of layers with learned positions and norms after residual paths. Pipelines cut within both and between
// them.
#pragma once

#include <vector>

#include "modular/t5.h"

namespace modular::bart {
MODULAR_FAMILY(Bart, .title = "BART", .members = {{"transformer", "model"}});

struct BartConfig : Config {
  int64_t vocab_size = 50265;
  int64_t max_position_embeddings = 1024;
  int64_t encoder_layers = 12;
  int64_t encoder_ffn_dim = 4096;
  int64_t encoder_attention_heads = 16;
  int64_t decoder_layers = 12;
  int64_t decoder_ffn_dim = 4096;
  int64_t decoder_attention_heads = 16;
  double encoder_layerdrop = 0.0;
  double decoder_layerdrop = 0.0;
  std::string activation_function = "gelu";
  int64_t d_model = 1024;
  double dropout = 0.1;
  double attention_dropout = 0.0;
  double activation_dropout = 0.0;
  double init_std = 0.02;
  double classifier_dropout = 0.0;
  bool scale_embedding = false;  // multiply token embeddings by the square root of d_model
  std::optional<int64_t> pad_token_id = 1;
  int64_t eos_token_id = 2;
  std::optional<int64_t> decoder_start_token_id = 2;  // pad_token_id when not given
  bool tie_word_embeddings = true;
  int64_t num_labels = 3;                   // number of classifier labels
  std::optional<std::string> problem_type;  // selects the loss of sequence classifiers

  void finish() {
    if (d_model % encoder_attention_heads != 0 || d_model % decoder_attention_heads != 0)
      throw ConfigError("d_model must be a multiple of encoder_attention_heads and decoder_attention_heads");
    if (encoder_layerdrop != 0.0 || decoder_layerdrop != 0.0)
      throw ConfigError("layers cannot be dropped: set encoder_layerdrop and decoder_layerdrop to 0.0");
    if (!tie_word_embeddings)
      throw ConfigError("tables for encoder, decoder and output are not supported: set tie_word_embeddings to true");
    if (!pad_token_id) throw ConfigError("pad_token_id must be given: the decoder reads it where a target is ignored");
    if (decoder_start_token_id && (*decoder_start_token_id < 0 || *decoder_start_token_id >= vocab_size))
      throw ConfigError("decoder_start_token_id must be an id below vocab_size");
    check_labels(num_labels, problem_type);
  }
};

/// Self-attention.
class BartAttentionImpl : public Module {
 public:
  BartAttentionImpl(const BartConfig& config, int64_t num_heads)
      : Module(config.init_std),
        num_heads(num_heads),
        head_dim(config.d_model / num_heads),
        scaling(1.0 / std::sqrt(static_cast<double>(head_dim))),
        k_proj(linear(config.d_model, config.d_model, /*bias=*/true)),
        v_proj(linear(config.d_model, config.d_model, /*bias=*/true)),
        q_proj(linear(config.d_model, config.d_model, /*bias=*/true)),
        out_proj(linear(config.d_model, config.d_model, /*bias=*/true)),
        dropout(nn::Dropout(config.attention_dropout)) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor query = q_proj(hidden_states).view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor key = k_proj(hidden_states).view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor value = v_proj(hidden_states).view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    return out_proj(attention(query, key, value, mask, scaling, dropout));
  }

  TP_LOCAL int64_t num_heads;
  int64_t head_dim;
  double scaling;
  TP_COLWISE nn::Linear k_proj;
  TP_COLWISE nn::Linear v_proj;
  TP_COLWISE nn::Linear q_proj;
  TP_ROWWISE nn::Linear out_proj;
  nn::Dropout dropout;  // on attention weights
};

/// Cross-attention from the decoder to the encoder's output.
class BartCrossAttentionImpl : public BartAttentionImpl {
 public:
  /// `hidden_states` [batch, seq, hidden] attend to `states` [batch, other_seq, hidden].
  Tensor forward(const Tensor& hidden_states, const Tensor& states, const Tensor& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1), other_seq = states.size(1);
    const Tensor query = q_proj(hidden_states).view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor key = k_proj(states).view({batch, other_seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor value = v_proj(states).view({batch, other_seq, num_heads, head_dim}).transpose(1, 2);
    return out_proj(attention(query, key, value, mask, scaling, dropout));
  }
};

/// Self-attention and feed-forward network, each with a residual path and then a norm.
class FSDP_UNIT BartEncoderLayerImpl : public Module {
 public:
  BartEncoderLayerImpl(const BartConfig& config, int64_t num_heads, int64_t ffn_dim)
      : Module(config.init_std),
        self_attn(BartAttention(config, num_heads)),
        self_attn_layer_norm(LayerNorm(config.d_model, /*eps=*/1e-5)),
        fc1(linear(config.d_model, ffn_dim, /*bias=*/true)),
        fc2(linear(ffn_dim, config.d_model, /*bias=*/true)),
        final_layer_norm(LayerNorm(config.d_model, /*eps=*/1e-5)),
        activation_function(config.activation_function),
        dropout(nn::Dropout(config.dropout)),
        activation_dropout(nn::Dropout(config.activation_dropout)),
        final_dropout(nn::Dropout(config.dropout)) {}

  Tensor attend(const Tensor& hidden_states, const AttentionMask& mask) {
    return self_attn_layer_norm(hidden_states + dropout(self_attn(hidden_states, mask)));
  }

  Tensor feed_forward(const Tensor& hidden_states) {
    const Tensor features = activation_dropout(activation(activation_function, fc1(hidden_states)));
    return final_layer_norm(hidden_states + final_dropout(fc2(features)));
  }

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    return feed_forward(attend(hidden_states, mask));
  }

  BartAttention self_attn;
  LayerNorm self_attn_layer_norm;
  TP_COLWISE nn::Linear fc1;
  TP_ROWWISE nn::Linear fc2;
  LayerNorm final_layer_norm;
  std::string activation_function;
  nn::Dropout dropout;             // on the output of self-attention
  nn::Dropout activation_dropout;  // on the feed-forward network's features
  nn::Dropout final_dropout;       // on its output
};

/// The same with attention to the encoder's output in between.
class BartDecoderLayerImpl : public BartEncoderLayerImpl {
 public:
  explicit BartDecoderLayerImpl(const BartConfig& config)
      : BartEncoderLayerImpl(config, config.decoder_attention_heads, config.decoder_ffn_dim),
        encoder_attn(BartCrossAttention(config, config.decoder_attention_heads)),
        encoder_attn_layer_norm(LayerNorm(config.d_model, /*eps=*/1e-5)),
        encoder_attn_dropout(nn::Dropout(config.dropout)) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask, const Tensor& encoder_states,
                 const Tensor& encoder_mask) {
    const Tensor attended = attend(hidden_states, mask);
    const Tensor read = encoder_attn_dropout(encoder_attn(attended, encoder_states, encoder_mask));
    return feed_forward(encoder_attn_layer_norm(attended + read));
  }

  BartCrossAttention encoder_attn;
  LayerNorm encoder_attn_layer_norm;
  nn::Dropout encoder_attn_dropout;
};

/// Positions and layers of the encoder.
class BartEncoderImpl : public Module {
 public:
  explicit BartEncoderImpl(const BartConfig& config)
      : Module(config.init_std),
        embed_positions(embedding(config.max_position_embeddings + 2, config.d_model, std::nullopt)),
        layers(ModuleListOf<BartEncoderLayer>()),
        layernorm_embedding(LayerNorm(config.d_model, /*eps=*/1e-5)),
        dropout(nn::Dropout(config.dropout)) {
    for (int64_t layer = 0; layer < config.encoder_layers; ++layer)
      layers->push_back(BartEncoderLayer(config, config.encoder_attention_heads, config.encoder_ffn_dim));
  }

  /// Adds positions to the `embedded` tokens [batch, seq, hidden] of `ids`. The first position is row 2 of the table.
  Tensor add_positions(const Tensor& embedded, const Tensor& ids) {
    return dropout(layernorm_embedding(embedded + embed_positions(position_ids(ids) + 2)));
  }

  PP_FIRST nn::Embedding embed_positions;
  PP_SPLIT ModuleListOf<BartEncoderLayer> layers;
  PP_FIRST LayerNorm layernorm_embedding;
  nn::Dropout dropout;
};

/// Positions and layers of the decoder.
class BartDecoderImpl : public Module {
 public:
  explicit BartDecoderImpl(const BartConfig& config)
      : Module(config.init_std),
        embed_positions(embedding(config.max_position_embeddings + 2, config.d_model, std::nullopt)),
        layers(ModuleListOf<BartDecoderLayer>()),
        layernorm_embedding(LayerNorm(config.d_model, /*eps=*/1e-5)),
        dropout(nn::Dropout(config.dropout)) {
    for (int64_t layer = 0; layer < config.decoder_layers; ++layer) layers->push_back(BartDecoderLayer(config));
  }

  /// Adds positions to the `embedded` tokens [batch, seq, hidden] of `ids`. The first position is row 2 of the table.
  Tensor add_positions(const Tensor& embedded, const Tensor& ids) {
    return dropout(layernorm_embedding(embedded + embed_positions(position_ids(ids) + 2)));
  }

  PP_FIRST nn::Embedding embed_positions;
  PP_SPLIT ModuleListOf<BartDecoderLayer> layers;
  PP_FIRST LayerNorm layernorm_embedding;
  nn::Dropout dropout;
};

/// Encoder and decoder with a shared token embedding.
class BartModelImpl : public Module {
 public:
  explicit BartModelImpl(const BartConfig& config)
      : Module(config.init_std),
        embed_scale(config.scale_embedding ? std::sqrt(static_cast<double>(config.d_model)) : 1.0),
        shared(embedding(config.vocab_size, config.d_model, config.pad_token_id)),
        encoder(BartEncoder(config)),
        decoder(BartDecoder(config)) {}

  /// The encoder's output for the batch's `input_ids`.
  Tensor encode(const Batch& batch) {
    const AttentionMask mask = bidirectional_mask(batch);
    Tensor hidden_states = encoder->add_positions(shared(batch.input_ids) * embed_scale, batch.input_ids);
    for (auto& each : *encoder->layers) hidden_states = each(hidden_states, mask);
    return hidden_states;
  }

  /// The decoder's output for `decoder_input_ids` [batch, target_seq].
  Tensor forward(const Batch& batch, const Tensor& decoder_input_ids) {
    const Tensor encoder_states = encode(batch);
    const Tensor encoder_mask = key_mask(batch);
    const AttentionMask mask = causal_mask(batch.decoder_attention_mask, /*window=*/0);
    Tensor hidden_states = decoder->add_positions(shared(decoder_input_ids) * embed_scale, decoder_input_ids);
    for (auto& each : *decoder->layers) hidden_states = each(hidden_states, mask, encoder_states, encoder_mask);
    return hidden_states;
  }

  double embed_scale;
  PP_ALL TP_VOCAB nn::Embedding shared;
  PP_FIRST BartEncoder encoder;
  PP_LAST BartDecoder decoder;
};

/// Text-to-text generation.
class MODEL_ENTRY("seq2seq") FSDP_UNIT BartForConditionalGenerationImpl : public Module {
 public:
  explicit BartForConditionalGenerationImpl(const BartConfig& config)
      : Module(config.init_std),
        config(config),
        model(BartModel(config)),
        final_logits_bias(register_buffer("final_logits_bias", torch::zeros({1, config.vocab_size}))),
        lm_head(linear(config.d_model, config.vocab_size, /*bias=*/false)) {}

  /// Scores of the target tokens: [batch, target_seq, vocab].
  Outputs forward(const Batch& batch) {
    Tensor decoder_input_ids = batch.decoder_input_ids;
    if (!decoder_input_ids.defined()) decoder_input_ids = t5::shift_right(batch.labels, config);
    Tensor hidden_states = model(batch, decoder_input_ids);
    return cross_entropy_outputs(lm_head(hidden_states) + final_logits_bias, batch, same_labels);
  }

  void reset_parameters() override {
    Module::reset_parameters();
    init::zeros_(final_logits_bias);
  }

  BartConfig config;
  BartModel model;
  PP_LAST TP_SHARD(1) Tensor final_logits_bias;  // [1, vocab], no gradient
  PP_LAST TP_VOCAB TIED_TO(model->shared->weight) nn::Linear lm_head;
};

/// Label scores of a sequence.
class BartClassificationHeadImpl : public Module {
 public:
  explicit BartClassificationHeadImpl(const BartConfig& config)
      : Module(config.init_std),
        dense(linear(config.d_model, config.d_model, /*bias=*/true)),
        dropout(nn::Dropout(config.classifier_dropout)),
        out_proj(linear(config.d_model, config.num_labels, /*bias=*/true)) {}

  Tensor forward(const Tensor& hidden_states) {
    const Tensor features = dense(dropout(hidden_states)).tanh();
    return out_proj(dropout(features));
  }

  nn::Linear dense;
  nn::Dropout dropout;
  nn::Linear out_proj;
};

using BartForSequenceClassification MODEL_ENTRY("sequence-classification") = t5::T5ForSequenceClassification;

}  // namespace modular::bart
