// Mamba-2 (Dao & Gu, 2024), as in Hugging Face transformers: state space layers instead of attention and feed-forward
// network. Tensor parallelism splits the groups that share B and C, with their heads.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::mamba2 {
MODULAR_FAMILY(Mamba2);

struct Mamba2Config : Config {
  int64_t num_heads = 128;
  std::optional<int64_t> head_dim = 64;  // hidden_size * expand / num_heads when not given
  int64_t vocab_size = 32768;
  int64_t hidden_size = 4096;
  int64_t state_size = 128;
  int64_t num_hidden_layers = 64;
  double layer_norm_epsilon = 1e-5;
  std::optional<int64_t> pad_token_id = 1;  // for a classifier: the embedding is without a padding row
  int64_t expand = 2;
  int64_t conv_kernel = 4;
  int64_t n_groups = 8;
  bool use_bias = false;
  bool use_conv_bias = true;
  std::string hidden_act = "silu";
  double initializer_range = 0.1;
  bool residual_in_fp32 = true;
  std::optional<int64_t> time_step_rank;  // for Mamba; unused
  double time_step_min = 0.001;
  double time_step_max = 0.1;
  double time_step_floor = 1e-4;
  std::optional<std::vector<double>> time_step_limit = {{0.0, std::numeric_limits<double>::infinity()}};
  bool rescale_prenorm_residual = false;
  int64_t chunk_size = 256;
  bool tie_word_embeddings = false;

  void finish() {
    if (!time_step_rank) time_step_rank = (hidden_size + 15) / 16;
    if (num_heads < 1) throw ConfigError("num_heads must be at least 1");
    if (!head_dim) head_dim = hidden_size * expand / num_heads;
    if (hidden_size * expand != num_heads * *head_dim)
      throw ConfigError("num_heads * head_dim must be hidden_size * expand");
    if (n_groups < 1 || num_heads % n_groups != 0) throw ConfigError("num_heads must be a multiple of n_groups");
    if (chunk_size < 1) throw ConfigError("chunk_size must be at least 1");
    if (!time_step_limit || time_step_limit->size() != 2)
      throw ConfigError("time_step_limit must have two numbers, the smallest and the largest step");
  }
};

/// RMSNorm with a learned scale.
class Mamba2RMSNormImpl : public Module {
 public:
  Mamba2RMSNormImpl(int64_t hidden_size, double eps)
      : weight(register_parameter("weight", torch::ones({hidden_size}))), eps(eps) {}

  Tensor forward(const Tensor& hidden_states) { return rms_norm(hidden_states, weight, eps); }

  void reset_parameters() override { init::ones_(weight); }

  Tensor weight;  // [hidden]
  double eps;
};

/// RMSNorm of a gated value, by groups.
class Mamba2RMSNormGatedImpl : public Module {
 public:
  explicit Mamba2RMSNormGatedImpl(const Mamba2Config& config)
      : num_heads(config.num_heads),
        n_groups(config.n_groups),
        weight(register_parameter("weight", torch::ones({num_heads * *config.head_dim}))),
        eps(config.layer_norm_epsilon) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& gate) {
    return gated_rms_norm(hidden_states, gate, weight, n_groups, eps);
  }

  void reset_parameters() override { init::ones_(weight); }

  TP_LOCAL int64_t num_heads;
  TP_LOCAL int64_t n_groups;
  TP_SHARD(0) Tensor weight;  // [heads * head_dim]
  double eps;
};

/// Causal convolution over positions for each channel of x, B and C.
class Mamba2Conv1dImpl : public Module {
 public:
  explicit Mamba2Conv1dImpl(const Mamba2Config& config)
      : num_heads(config.num_heads),
        head_dim(*config.head_dim),
        n_groups(config.n_groups),
        state_size(config.state_size),
        hidden_act(config.hidden_act),
        weight(register_parameter(
            "weight", torch::empty({num_heads * head_dim + 2 * n_groups * state_size, 1, config.conv_kernel}))) {
    if (config.use_conv_bias) bias = register_parameter("bias", torch::empty({weight.size(0)}));
  }

  Tensor forward(const Tensor& x) { return activation(hidden_act, causal_conv1d(x, weight, bias)); }

  void reset_parameters() override {
    const double bound = 1.0 / std::sqrt(static_cast<double>(weight.size(-1)));
    init::uniform_(weight, -bound, bound);
    init::zeros_(bias);
  }

  TP_LOCAL int64_t num_heads;
  int64_t head_dim;
  TP_LOCAL int64_t n_groups;
  int64_t state_size;
  std::string hidden_act;
  TP_SHARD(0, num_heads * head_dim, n_groups * state_size, n_groups * state_size) Tensor weight;
  TP_SHARD(0, num_heads * head_dim, n_groups * state_size, n_groups * state_size) Tensor bias;
};

/// State space layer.
class Mamba2MixerImpl : public Module {
 public:
  explicit Mamba2MixerImpl(const Mamba2Config& config)
      : Module(config.initializer_range),
        config(config),
        num_heads(config.num_heads),
        head_dim(*config.head_dim),
        n_groups(config.n_groups),
        state_size(config.state_size),
        conv1d(Mamba2Conv1d(config)),
        in_proj(linear(config.hidden_size, 2 * num_heads * head_dim + 2 * n_groups * state_size + num_heads,
                       config.use_bias)),
        dt_bias(register_parameter("dt_bias", torch::empty({num_heads}))),
        A_log(register_parameter("A_log", torch::empty({num_heads}))),
        norm(Mamba2RMSNormGated(config)),
        D(register_parameter("D", torch::empty({num_heads}))),
        out_proj(linear(num_heads * head_dim, config.hidden_size, config.use_bias)) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& padding) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const int64_t inner = num_heads * head_dim, shared = n_groups * state_size;
    const auto projected = in_proj(without_padding(hidden_states, padding))
                               .split_with_sizes({inner, inner + shared + shared, num_heads}, -1);
    const auto convolved = without_padding(conv1d(projected[1]), padding).split_with_sizes({inner, shared, shared}, -1);
    const Tensor x = convolved[0].view({batch, seq, num_heads, head_dim});
    const Tensor B = convolved[1].view({batch, seq, n_groups, state_size});
    const Tensor C = convolved[2].view({batch, seq, n_groups, state_size});
    const auto& limit = *config.time_step_limit;
    const Tensor step = at::softplus(projected[2] + dt_bias).clamp(limit[0], limit[1]);
    const Tensor A = -at::exp(A_log.to(at::kFloat));
    const Tensor scanned = state_space_duality(x, step, A, B, C, D, config.chunk_size).flatten(2);
    return out_proj(norm(scanned, projected[0]).to(hidden_states.scalar_type()));
  }

  void reset_parameters() override {
    Module::reset_parameters();
    double bound = 1.0 / std::sqrt(static_cast<double>(num_heads * head_dim));
    if (config.rescale_prenorm_residual) bound /= std::sqrt(static_cast<double>(config.num_hidden_layers));
    init::uniform_(out_proj->weight, -bound, bound);
    init::step_biases_(dt_bias, config.time_step_min, config.time_step_max, config.time_step_floor);
    init::log_rates_(A_log);
    init::ones_(D);
  }

  Mamba2Config config;
  TP_LOCAL int64_t num_heads;
  int64_t head_dim;
  TP_LOCAL int64_t n_groups;
  int64_t state_size;
  Mamba2Conv1d conv1d;
  TP_COLWISE_PARTS(num_heads * head_dim, num_heads * head_dim, n_groups * state_size, n_groups * state_size, num_heads)
  nn::Linear in_proj;
  TP_SHARD(0) Tensor dt_bias;  // [heads]
  TP_SHARD(0) Tensor A_log;    // [heads]
  Mamba2RMSNormGated norm;
  TP_SHARD(0) Tensor D;  // [heads]
  TP_ROWWISE nn::Linear out_proj;
};

/// A state space layer after a norm, with a residual connection.
class FSDP_UNIT Mamba2BlockImpl : public Module {
 public:
  explicit Mamba2BlockImpl(const Mamba2Config& config)
      : residual_in_fp32(config.residual_in_fp32),
        norm(Mamba2RMSNorm(config.hidden_size, config.layer_norm_epsilon)),
        mixer(Mamba2Mixer(config)) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& padding) {
    const Tensor mixed = mixer(norm(hidden_states.to(norm->weight.scalar_type())), padding);
    return (residual_in_fp32 ? hidden_states.to(at::kFloat) : hidden_states) + mixed;
  }

  bool residual_in_fp32;
  Mamba2RMSNorm norm;
  Mamba2Mixer mixer;
};

/// Embedding, blocks and final norm.
class Mamba2ModelImpl : public Module {
 public:
  explicit Mamba2ModelImpl(const Mamba2Config& config)
      : Module(config.initializer_range),
        config(config),
        embeddings(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        layers(ModuleListOf<Mamba2Block>()),
        norm_f(Mamba2RMSNorm(config.hidden_size, config.layer_norm_epsilon)) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(Mamba2Block(config));
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embeddings(batch.input_ids);
    for (auto& layer : *layers) hidden_states = layer(hidden_states, batch.attention_mask);
    return norm_f(hidden_states);
  }

  Mamba2Config config;
  PP_FIRST TP_VOCAB nn::Embedding embeddings;
  PP_SPLIT ModuleListOf<Mamba2Block> layers;
  PP_LAST Mamba2RMSNorm norm_f;
};

/// Predicts the next token.
class MODEL_ENTRY("causal-lm") FSDP_UNIT Mamba2ForCausalLMImpl : public Module {
 public:
  explicit Mamba2ForCausalLMImpl(const Mamba2Config& config)
      : Module(config.initializer_range),
        config(config),
        backbone(Mamba2Model(config)),
        lm_head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = backbone(batch);
    return cross_entropy_outputs(lm_head(hidden_states.to(lm_head->weight.scalar_type())), batch, next_tokens);
  }

  Mamba2Config config;
  Mamba2Model backbone;
  PP_LAST TP_VOCAB TIED_TO(backbone->embeddings->weight) nn::Linear lm_head;
};

}  // namespace modular::mamba2
