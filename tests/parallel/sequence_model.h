// A decoder with the calls of sequence parallelism, written by hand as modgen weaves the calls of tensor parallelism.
// Its layers have what sequence parallelism has to treat: norms, biases and a router that see a part of the positions,
// a norm of split heads, a sum of two branches that is reduced once, dropout, and experts, whose rows are two
// dimensions in one.
#pragma once

#include <cmath>
#include <string>

#include "runtime/model/model.h"

namespace modular::positions {

struct PositionsConfig {
  int64_t vocab_size = 64;
  int64_t hidden_size = 32;
  int64_t intermediate_size = 48;
  int64_t num_hidden_layers = 2;
  int64_t num_attention_heads = 4;
  int64_t head_dim = 8;
  int64_t max_position_embeddings = 64;
  int64_t num_experts = 0;  // instead of a feed-forward network; each token has two of them
  double initializer_range = 0.1;
  double hidden_dropout = 0.0;
  double attention_dropout = 0.0;
  RopeParameters rope_parameters;

  void finish() {}

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("vocab_size", vocab_size, 1);
    visit("hidden_size", hidden_size, 1);
    visit("intermediate_size", intermediate_size, 1);
    visit("num_hidden_layers", num_hidden_layers, 1, 2048);
    visit("num_attention_heads", num_attention_heads, 1);
    visit("head_dim", head_dim, 1);
    visit("max_position_embeddings", max_position_embeddings, 1);
    visit("num_experts", num_experts, 0);
    visit("initializer_range", initializer_range);
    visit("hidden_dropout", hidden_dropout);
    visit("attention_dropout", attention_dropout);
    visit("rope_parameters", rope_parameters);
  }
};

class PositionsAttentionImpl : public Module {
 public:
  explicit PositionsAttentionImpl(const PositionsConfig& config)
      : num_heads(config.num_attention_heads),
        head_dim(config.head_dim),
        initializer_range(config.initializer_range),
        qkv_proj(register_module("qkv_proj", linear(config.hidden_size, 3 * num_heads * head_dim, /*bias=*/true))),
        q_norm(register_parameter("q_norm", torch::ones({head_dim}))),
        o_proj(register_module("o_proj", linear(num_heads * head_dim, config.hidden_size, /*bias=*/true))),
        attention_dropout(register_module("attention_dropout", nn::Dropout(config.attention_dropout))) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = tp::whole_size(hidden_states.size(1));
    const auto parts = qkv_proj(tp::enter(hidden_states)).chunk(3, -1);
    const auto by_head = [&](const Tensor& x) {
      return x.view({batch, seq, tp::local(num_heads), head_dim}).transpose(1, 2);
    };
    const auto& [cos, sin] = rotary_embeddings;
    const Tensor query = rms_norm(by_head(parts[0]), tp::shared(q_norm), 1e-6);
    const Tensor attended =
        tp::attention(rotary(query, cos, sin), rotary(by_head(parts[1]), cos, sin), by_head(parts[2]), mask,
                      1.0 / std::sqrt(static_cast<double>(head_dim)), attention_dropout);
    return tp::exit(o_proj, attended);
  }

  void reset_parameters() override {
    init::linear_and_embedding_(*this, initializer_range);
    init::ones_(q_norm);
  }

  int64_t num_heads, head_dim;
  double initializer_range;
  nn::Linear qkv_proj;
  Tensor q_norm;  // [head_dim]
  nn::Linear o_proj;
  nn::Dropout attention_dropout;
};
TORCH_MODULE(PositionsAttention);

/// Two branches, whose partial sums are reduced together.
class PositionsMLPImpl : public Module {
 public:
  explicit PositionsMLPImpl(const PositionsConfig& config)
      : initializer_range(config.initializer_range),
        up_proj(register_module("up_proj", linear(config.hidden_size, config.intermediate_size, /*bias=*/true))),
        down_proj(register_module("down_proj", linear(config.intermediate_size, config.hidden_size, /*bias=*/true))),
        square_proj(
            register_module("square_proj", linear(config.intermediate_size, config.hidden_size, /*bias=*/false))) {}

  Tensor forward(const Tensor& hidden_states) {
    const Tensor x = at::gelu(up_proj(tp::enter(hidden_states)));
    return tp::exit(tp::partial(down_proj, x) + tp::partial(square_proj, x.square()));
  }

  void reset_parameters() override { init::linear_and_embedding_(*this, initializer_range); }

  double initializer_range;
  nn::Linear up_proj, down_proj, square_proj;
};
TORCH_MODULE(PositionsMLP);

class PositionsExpertsImpl : public Module {
 public:
  explicit PositionsExpertsImpl(const PositionsConfig& config)
      : initializer_range(config.initializer_range),
        router(register_parameter("router", torch::empty({config.num_experts, config.hidden_size}))),
        gate_up(register_parameter(
            "gate_up", torch::empty({config.num_experts, 2 * config.intermediate_size, config.hidden_size}))),
        down(register_parameter("down",
                                torch::empty({config.num_experts, config.hidden_size, config.intermediate_size}))) {}

  Tensor forward(const Tensor& hidden_states) {
    const Tensor rows = hidden_states.flatten(0, 1);
    const Tensor logits = at::linear(rows, router);
    const Tensor probabilities = logits.softmax(-1);
    const auto [top, chosen] = probabilities.topk(2, -1);
    const Tensor weights = balance_experts(top / top.sum(-1, /*keepdim=*/true), logits, probabilities, chosen);
    const Tensor mixed = mix_experts("silu", tp::enter(rows, /*dim=*/0), gate_up, down, tp::whole(chosen, /*dim=*/0),
                                     tp::enter(weights, /*dim=*/0));
    return tp::exit(mixed, /*dim=*/0).view(hidden_states.sizes());
  }

  void reset_parameters() override {
    for (Tensor* parameter : {&router, &gate_up, &down}) init::normal_(*parameter, 0.0, initializer_range);
  }

  double initializer_range;
  Tensor router;   // [experts, hidden]
  Tensor gate_up;  // [experts, 2 * intermediate, hidden]
  Tensor down;     // [experts, hidden, intermediate]
};
TORCH_MODULE(PositionsExperts);

class PositionsLayerImpl : public Module {
 public:
  explicit PositionsLayerImpl(const PositionsConfig& config)
      : attention(register_module("attention", PositionsAttention(config))),
        attention_norm(register_module("attention_norm", LayerNorm(config.hidden_size, 1e-6))),
        norm(register_module("norm", LayerNorm(config.hidden_size, 1e-6))),
        gate(register_module("gate", linear(config.hidden_size, config.hidden_size, /*bias=*/true))),
        dropout(register_module("dropout", nn::Dropout(config.hidden_dropout))),
        initializer_range(config.initializer_range) {
    if (config.num_experts > 0)
      experts = register_module("experts", PositionsExperts(config));
    else
      mlp = register_module("mlp", PositionsMLP(config));
  }

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    return fsdp::unit(*this, &PositionsLayerImpl::forward_unit, hidden_states, rotary_embeddings, mask);
  }

  Tensor forward_unit(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const Tensor attended = attention(attention_norm(hidden_states), rotary_embeddings, mask);
    const Tensor residual = hidden_states + tp::dropout(dropout, attended, tp::Cut::positions);
    const Tensor mixed = mlp ? mlp(norm(residual)) : experts(norm(residual));
    return residual + tp::dropout(dropout, mixed * gate(residual).sigmoid(), tp::Cut::positions);
  }

  void reset_parameters() override { init::linear_and_embedding_(*this, initializer_range); }

  PositionsAttention attention;
  LayerNorm attention_norm, norm;
  nn::Linear gate;
  nn::Dropout dropout;
  double initializer_range;
  PositionsMLP mlp{nullptr};
  PositionsExperts experts{nullptr};
};
TORCH_MODULE(PositionsLayer);

class PositionsForCausalLMImpl : public Module {
 public:
  explicit PositionsForCausalLMImpl(const PositionsConfig& config)
      : config(config),
        embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        dropout(register_module("dropout", nn::Dropout(config.hidden_dropout))),
        layers(register_module("layers", ModuleListOf<PositionsLayer>())),
        norm(register_module("norm", LayerNorm(config.hidden_size, 1e-6))),
        lm_head(register_module("lm_head", linear(config.hidden_size, config.vocab_size, /*bias=*/false))) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(PositionsLayer(config));
  }

  Outputs forward(const Batch& batch) { return fsdp::unit(*this, &PositionsForCausalLMImpl::forward_unit, batch); }

  Outputs forward_unit(const Batch& batch) {
    Tensor hidden_states = pp::is_first() ? tp::part(dropout(tp::embedding(embed, batch.input_ids))) : pp::received();
    const RotaryTables rotary_embeddings = rotary_tables(
        config.rope_parameters, config.head_dim, config.max_position_embeddings, batch, hidden_states.scalar_type());
    const AttentionMask mask = causal_mask(batch, /*window=*/0);
    for (auto& layer : pp::local(layers)) hidden_states = layer(hidden_states, rotary_embeddings, mask);
    if (!pp::is_last()) return pp::pass_on(hidden_states);
    return tp::cross_entropy_outputs(lm_head(tp::shared(norm(tp::whole(hidden_states)))), batch, next_tokens);
  }

  void reset_parameters() override { init::linear_and_embedding_(*this, config.initializer_range); }

  PositionsConfig config;
  nn::Embedding embed;
  nn::Dropout dropout;
  ModuleListOf<PositionsLayer> layers;
  LayerNorm norm;
  nn::Linear lm_head;
};
TORCH_MODULE(PositionsForCausalLM);

inline const Plan positions_for_causal_lm_plan = {
    .units = {"layers.*"},
    .tensor_splits =
        {
            {"embed.weight", 0},
            {"layers.*.attention.qkv_proj.weight",
             0,
             {"head_dim * num_attention_heads", "head_dim * num_attention_heads", "head_dim * num_attention_heads"}},
            {"layers.*.attention.qkv_proj.bias",
             0,
             {"head_dim * num_attention_heads", "head_dim * num_attention_heads", "head_dim * num_attention_heads"}},
            {"layers.*.attention.o_proj.weight", 1},
            {"layers.*.mlp.up_proj.weight", 0},
            {"layers.*.mlp.up_proj.bias", 0},
            {"layers.*.mlp.down_proj.weight", 1},
            {"layers.*.mlp.square_proj.weight", 1},
            {"layers.*.experts.gate_up", 1, {"intermediate_size", "intermediate_size"}},
            {"layers.*.experts.down", 2},
            {"lm_head.weight", 0},
        },
    .split_list = "layers",
    .first = {"embed"},
    .last = {"norm", "lm_head"},
    .divides =
        {
            {"vocab_size", "tp", Divides::uneven},
            {"num_attention_heads", "tp"},
            {"intermediate_size", "tp"},
        },
    .experts =
        {
            {"layers.*.experts.gate_up", ""},
            {"layers.*.experts.down", ""},
        },
    .sequence = {"layers"},
    .partial_in_sequence =
        {
            "layers.*.attention_norm.weight",
            "layers.*.attention_norm.bias",
            "layers.*.norm.weight",
            "layers.*.norm.bias",
            "layers.*.gate.weight",
            "layers.*.gate.bias",
            "layers.*.attention.o_proj.bias",
            "layers.*.experts.router",
        },
};

inline const bool positions_for_causal_lm_registered = register_entry<PositionsForCausalLM, PositionsConfig>(
    "positions", "PositionsForCausalLM", "causal-lm", "positions", positions_for_causal_lm_plan);

}  // namespace modular::positions
