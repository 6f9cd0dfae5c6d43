// The decoder of decoder.h with another attention, and with mixtures of experts in some of its layers.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "modular/decoder.h"

namespace modular::mixture {
MODULAR_FAMILY(Mixture, .members = {{"DecoderModel::norm", "final_norm"}});

struct MixtureConfig : decoder::DecoderConfig {
  RopeParameters rope_parameters = partial_rotary(0.5);
  std::vector<std::string> layer_types;
  int64_t num_experts = 8;
  int64_t num_experts_per_tok = 2;
  int64_t moe_intermediate_size = 352;

  void finish() {
    DecoderConfig::finish();
    if (layer_types.empty()) layer_types.assign(num_hidden_layers, "sparse");
    check_layer_types(layer_types, num_hidden_layers, {"dense", "sparse"});
    check_experts(num_experts_per_tok, num_experts);
  }

  static std::vector<StoredAs> stored_as() {
    std::vector<StoredAs> stored = stored_expert_by_expert();
    stored.push_back({"model.final_norm.weight", {"model.norm.weight"}});
    return stored;
  }

 private:
  using DecoderConfig::sliding_window;
};

/// Whole on every rank: its values are few.
class MixtureAttentionImpl : public decoder::DecoderAttentionImpl {
 public:
  explicit MixtureAttentionImpl(const MixtureConfig& config) : DecoderAttentionImpl(config) {
    scaling *= rotary_attention_scale(config.rope_parameters);
  }

  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const RotaryTables& rotary_embeddings,
                const AttentionMask& mask) {
    const auto& [cos, sin] = rotary_embeddings;
    return attention(rotary_adjacent(query, cos, sin), rotary_adjacent(key, cos, sin), value, mask, scaling);
  }

  TP_NONE int64_t num_heads;
  TP_NONE int64_t num_key_value_heads;
  TP_NONE nn::Linear qkv_proj;
  TP_NONE nn::Linear o_proj;

 private:
  using DecoderAttentionImpl::softcap;
};
TORCH_MODULE(MixtureAttention);

/// Chooses each row's experts and mixes them.
class MixtureExpertsImpl : public Module {
 public:
  explicit MixtureExpertsImpl(const MixtureConfig& config)
      : intermediate_size(config.moe_intermediate_size),
        top_k(config.num_experts_per_tok),
        hidden_act(config.hidden_act),
        initializer_range(config.initializer_range),
        gate(register_parameter("gate", torch::empty({config.num_experts, config.hidden_size}))),
        gate_up_proj(register_parameter("gate_up_proj",
                                        torch::empty({config.num_experts, 2 * intermediate_size, config.hidden_size}))),
        down_proj(
            register_parameter("down_proj", torch::empty({config.num_experts, config.hidden_size, intermediate_size}))),
        features(register_parameter("features",
                                    torch::empty({config.num_experts, config.hidden_size, 2 * intermediate_size}))),
        biases(register_parameter("biases", torch::empty({config.num_experts, 2 * intermediate_size}))),
        shared_in(register_parameter("shared_in", torch::empty({intermediate_size, config.hidden_size}))),
        shared_out(register_parameter("shared_out", torch::empty({config.hidden_size, intermediate_size}))),
        output(
            register_parameter("output", torch::empty({config.num_experts, intermediate_size, config.hidden_size}))) {}

  Tensor forward(const Tensor& hidden_states) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1), hidden = hidden_states.size(2);
    const Tensor rows = hidden_states.view({batch * seq, hidden});
    const Tensor logits = at::linear(rows, gate).to(at::kFloat);
    const Tensor scores = logits.softmax(-1);
    const auto [top, chosen] = scores.topk(top_k, -1);
    const Tensor weights = balance_experts(top, logits, scores, chosen);
    const Tensor mixed = mix_experts(hidden_act, rows, gate_up_proj, down_proj, chosen, weights);
    const Tensor clamped =
        mix_clamped_experts(rows, features, biases, output, chosen, weights, /*alpha=*/1.7, /*limit=*/7.0);
    const Tensor shared = torch::linear(torch::relu(torch::linear(rows, shared_in)), shared_out);
    return (mixed + clamped + shared).view({batch, seq, hidden});
  }

  void reset_parameters() override {
    init::xavier_uniform_(gate);
    init::normal_(gate_up_proj, 0.0, initializer_range);
    init::normal_(features, 0.0, initializer_range);
    init::zeros_(biases);
    init::normal_(output, 0.0, initializer_range);
    init::normal_(shared_in, 0.0, initializer_range);
    init::normal_(shared_out, 0.0, initializer_range);
    init::fill(down_proj, [this](Tensor& whole) { whole.normal_(0.0, initializer_range).mul_(0.5); });
  }

  int64_t intermediate_size;
  int64_t top_k;
  std::string hidden_act;
  double initializer_range;
  Tensor gate;                                                          // [experts, hidden]
  TP_SHARD(1, intermediate_size, intermediate_size) Tensor gate_up_proj;  // [experts, 2 * intermediate, hidden]
  TP_SHARD(2) Tensor down_proj;                                         // [experts, hidden, intermediate]
  TP_SHARD(2) Tensor features;                                          // [experts, hidden, 2 * intermediate]
  TP_SHARD(1) Tensor biases;                                            // [experts, 2 * intermediate]
  TP_SHARD(0) Tensor shared_in;                                         // [intermediate, hidden]
  TP_REDUCE(1) Tensor shared_out;                                       // [hidden, intermediate]
  TP_SHARD(1) Tensor output;                                            // [experts, intermediate, hidden]
};
TORCH_MODULE(MixtureExperts);

class STANDS_FOR(decoder::DecoderLayer) MixtureBlockImpl : public decoder::DecoderLayerImpl {
 public:
  MixtureBlockImpl(const MixtureConfig& config, int64_t layer) : DecoderLayerImpl(config, layer) {
    remove(mlp);
    if (config.layer_types[layer] == "sparse")
      mlp = register_module("mlp", MixtureExperts(config));
    else
      mlp = register_module("mlp", decoder::DecoderMLP(config));
  }

  OneOf<MixtureExperts, decoder::DecoderMLP> mlp{nullptr};
};
TORCH_MODULE(MixtureBlock);

class MixtureModelImpl : public decoder::DecoderModelImpl {
 public:
  using DecoderModelImpl::DecoderModelImpl;

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed_tokens(batch.input_ids);
    const RotaryTables rotary_embeddings = rotary_tables(
        config.rope_parameters, config.head_dim, config.max_position_embeddings, batch, hidden_states.scalar_type());
    const AttentionMask mask = causal_mask(batch, /*window=*/0);
    for (auto& layer : *layers) hidden_states = layer(hidden_states, rotary_embeddings, mask);
    return norm(hidden_states);
  }
};
TORCH_MODULE(MixtureModel);

class MODEL_ENTRY("causal-lm") MixtureForCausalLMImpl : public decoder::DecoderForCausalLMImpl {
 public:
  using DecoderForCausalLMImpl::DecoderForCausalLMImpl;

  Outputs forward(const Batch& batch) { return own<Outputs>(DecoderForCausalLMImpl::forward(batch)); }
};
TORCH_MODULE(MixtureForCausalLM);

/// A score of each token by two layers, in the place of one by one layer.
class MODEL_ENTRY("token-classification") MixtureForTokenClassificationImpl
    : public decoder::DecoderForSequenceClassificationImpl {
 public:
  explicit MixtureForTokenClassificationImpl(const MixtureConfig& config)
      : DecoderForSequenceClassificationImpl(skip_to<DecoderForSequenceClassificationImpl, Module>()), config(config) {
    model = register_module("model", MixtureModel(config));
    score = register_module("score", linear(config.hidden_size, config.num_labels, /*bias=*/true));
  }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    const Tensor logits = score(hidden_states);
    Outputs outputs;
    if (batch.labels.defined()) {
      outputs.loss_sum = cross_entropy(logits, same_labels(batch.labels));
      outputs.token_count = count_targets(batch.labels);
    }
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }

  MixtureConfig config;
  MixtureModel model{nullptr};
  nn::Linear score{nullptr};
};
TORCH_MODULE(MixtureForTokenClassification);

}  // namespace modular::mixture
