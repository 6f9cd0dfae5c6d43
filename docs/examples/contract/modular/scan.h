// The decoder of decoder.h with state spaces in the place of attention: Mamba-2's in even layers, Mamba's in odd ones.
#pragma once

#include <cmath>

#include "modular/decoder.h"

namespace modular::scan {
MODULAR_FAMILY(Scan);

struct ScanConfig : decoder::DecoderConfig {
  int64_t num_heads = 8;
  int64_t n_groups = 2;
  int64_t state_size = 16;
  int64_t conv_kernel = 4;
  int64_t chunk_size = 64;
};

class ScanConv1dImpl : public Module {
 public:
  explicit ScanConv1dImpl(const ScanConfig& config)
      : hidden_size(config.hidden_size),
        weight(register_parameter("weight", torch::empty({hidden_size, 1, config.conv_kernel}))),
        bias(register_parameter("bias", torch::empty({hidden_size}))) {}

  Tensor forward(const Tensor& x) { return activation("silu", causal_conv1d(x, weight, bias)); }

  void reset_parameters() override {
    const double bound = 1.0 / std::sqrt(static_cast<double>(weight.size(-1)));
    init::uniform_(weight, -bound, bound);
    init::zeros_(bias);
  }

  TP_LOCAL int64_t hidden_size;
  TP_SHARD(0) Tensor weight;  // [channels, 1, kernel]
  TP_SHARD(0) Tensor bias;    // [channels]
};
TORCH_MODULE(ScanConv1d);

/// Heads and their groups are split.
class ScanMixerImpl : public Module {
 public:
  explicit ScanMixerImpl(const ScanConfig& config)
      : config(config),
        num_heads(config.num_heads),
        head_dim(config.hidden_size / config.num_heads),
        n_groups(config.n_groups),
        state_size(config.state_size),
        conv1d(register_module("conv1d", ScanConv1d(config))),
        x_proj(register_module("x_proj", linear(config.hidden_size, num_heads * head_dim, /*bias=*/false))),
        gate_proj(register_module("gate_proj", linear(config.hidden_size, num_heads * head_dim, /*bias=*/false))),
        b_proj(register_module("b_proj", linear(config.hidden_size, n_groups * state_size, /*bias=*/false))),
        c_proj(register_module("c_proj", linear(config.hidden_size, n_groups * state_size, /*bias=*/false))),
        dt_proj(register_module("dt_proj", linear(config.hidden_size, num_heads, /*bias=*/false))),
        dt_bias(register_parameter("dt_bias", torch::empty({num_heads}))),
        A_log(register_parameter("A_log", torch::empty({num_heads}))),
        D(register_parameter("D", torch::empty({num_heads}))),
        norm_weight(register_parameter("norm_weight", torch::empty({num_heads * head_dim}))),
        out_proj(register_module("out_proj", linear(num_heads * head_dim, config.hidden_size, /*bias=*/false))) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& padding) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor read = without_padding(hidden_states, padding);
    const Tensor x = conv1d(x_proj(read)).view({batch, seq, num_heads, head_dim});
    const Tensor B = b_proj(read).view({batch, seq, n_groups, state_size});
    const Tensor C = c_proj(read).view({batch, seq, n_groups, state_size});
    const Tensor step = at::softplus(dt_proj(read) + dt_bias);
    const Tensor A = -at::exp(A_log.to(at::kFloat));
    const Tensor scanned = state_space_duality(x, step, A, B, C, D, config.chunk_size).flatten(2);
    const Tensor normed = gated_rms_norm(scanned, gate_proj(read), norm_weight, n_groups, config.rms_norm_eps);
    return out_proj(normed.to(hidden_states.scalar_type()));
  }

  void reset_parameters() override {
    init::linear_and_embedding_(*this, config.initializer_range);
    init::step_biases_(dt_bias, /*low=*/0.001, /*high=*/0.1, /*floor=*/1e-4);
    init::log_rates_(A_log);
    init::ones_(D);
    init::ones_(norm_weight);
  }

  ScanConfig config;
  TP_LOCAL int64_t num_heads;
  int64_t head_dim;
  TP_LOCAL int64_t n_groups;
  int64_t state_size;
  ScanConv1d conv1d;
  TP_COLWISE nn::Linear x_proj;
  TP_COLWISE nn::Linear gate_proj;
  TP_COLWISE nn::Linear b_proj;
  TP_COLWISE nn::Linear c_proj;
  TP_COLWISE nn::Linear dt_proj;
  TP_SHARD(0) Tensor dt_bias;      // [heads]
  TP_SHARD(0) Tensor A_log;        // [heads]
  TP_SHARD(0) Tensor D;            // [heads]
  TP_SHARD(0) Tensor norm_weight;  // [heads * head_dim]
  TP_ROWWISE nn::Linear out_proj;
};
TORCH_MODULE(ScanMixer);

/// Channels are split; what B and C are made from is summed over them.
class ScanChannelsImpl : public Module {
 public:
  explicit ScanChannelsImpl(const ScanConfig& config)
      : config(config),
        hidden_size(config.hidden_size),
        state_size(config.state_size),
        x_proj(register_module("x_proj", linear(hidden_size, hidden_size, /*bias=*/false))),
        bc_proj(register_module("bc_proj", linear(hidden_size, 2 * state_size, /*bias=*/false))),
        dt_proj(register_module("dt_proj", linear(hidden_size, hidden_size, /*bias=*/true))),
        A_log(register_parameter("A_log", torch::empty({hidden_size, state_size}))),
        D(register_parameter("D", torch::empty({hidden_size}))),
        out_proj(register_module("out_proj", linear(hidden_size, hidden_size, /*bias=*/false))) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& padding) {
    const Tensor read = without_padding(hidden_states, padding);
    const Tensor x = x_proj(read);
    const auto coefficients = bc_proj(x).split_with_sizes({state_size, state_size}, -1);
    const Tensor step = at::softplus(dt_proj(read));
    const Tensor A = -at::exp(A_log.to(at::kFloat));
    const Tensor scanned = selective_scan(x, step, A, coefficients[0], coefficients[1], D.to(at::kFloat));
    return out_proj(scanned.to(hidden_states.scalar_type()));
  }

  void reset_parameters() override {
    init::linear_and_embedding_(*this, config.initializer_range);
    init::log_rates_(A_log);
    init::ones_(D);
  }

  ScanConfig config;
  TP_LOCAL int64_t hidden_size;
  int64_t state_size;
  TP_COLWISE nn::Linear x_proj;
  TP_ROWWISE nn::Linear bc_proj;
  TP_COLWISE nn::Linear dt_proj;
  TP_SHARD(0) Tensor A_log;  // [channels, state]
  TP_SHARD(0) Tensor D;      // [channels]
  TP_ROWWISE nn::Linear out_proj;
};
TORCH_MODULE(ScanChannels);

class STANDS_FOR(decoder::DecoderLayer) FSDP_UNIT ScanBlockImpl : public Module {
 public:
  ScanBlockImpl(const ScanConfig& config, int64_t layer)
      : norm(register_module("norm", decoder::DecoderRMSNorm(config.hidden_size, config.rms_norm_eps))) {
    if (layer % 2 == 0)
      mixer = register_module("mixer", ScanMixer(config));
    else
      mixer = register_module("mixer", ScanChannels(config));
  }

  Tensor forward(const Tensor& hidden_states, const Tensor& padding) {
    return hidden_states + mixer(norm(hidden_states), padding);
  }

  decoder::DecoderRMSNorm norm;
  OneOf<ScanMixer, ScanChannels> mixer{nullptr};
};
TORCH_MODULE(ScanBlock);

class ScanModelImpl : public decoder::DecoderModelImpl {
 public:
  using DecoderModelImpl::DecoderModelImpl;

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed_tokens(batch.input_ids);
    for (auto& layer : *layers) hidden_states = layer(hidden_states, batch.attention_mask);
    return norm(hidden_states);
  }

  ModuleListOf<ScanBlock> layers;
};
TORCH_MODULE(ScanModel);

using ScanForCausalLM MODEL_ENTRY("causal-lm") = decoder::DecoderForCausalLM;

}  // namespace modular::scan
