// Mixtral (Jiang et al., 2024), as in Hugging Face transformers: Mistral whose feed-forward network is a mixture of
// experts.
#pragma once

#include <utility>
#include <vector>

#include "modular/mistral.h"

namespace modular::mixtral {
MODULAR_FAMILY(Mixtral);

struct MixtralConfig : mistral::MistralConfig {
  double rms_norm_eps = 1e-5;
  RopeParameters rope_parameters = rotary_base(1e6);
  std::optional<int64_t> sliding_window;
  int64_t num_experts_per_tok = 2;
  int64_t num_local_experts = 8;
  bool output_router_logits = false;  // train with the routers' auxiliary loss, scaled by router_aux_loss_coef
  double router_aux_loss_coef = 0.001;
  double router_jitter_noise = 0.0;

  void finish() {
    check_experts(num_experts_per_tok, num_local_experts);
    if (router_jitter_noise != 0.0)
      throw ConfigError("the routers' noise is not supported: set router_jitter_noise to 0.0");
    MistralConfig::finish();
  }

  static std::vector<StoredAs> stored_as() {
    return {
        {"model.layers.*.mlp.gate.weight", {"model.layers.*.block_sparse_moe.gate.weight"}},
        {"model.layers.*.mlp.experts.gate_up_proj",
         {"model.layers.*.block_sparse_moe.experts.#.w1.weight",
          "model.layers.*.block_sparse_moe.experts.#.w3.weight"}},
        {"model.layers.*.mlp.experts.down_proj", {"model.layers.*.block_sparse_moe.experts.#.w2.weight"}},
    };
  }
};

/// The weights of all experts.
class MixtralExpertsImpl : public Module {
 public:
  MixtralExpertsImpl(const MixtralConfig& config, int64_t num_experts, int64_t intermediate_size)
      : Module(config.initializer_range),
        intermediate_size(intermediate_size),
        gate_up_proj(
            register_parameter("gate_up_proj", torch::empty({num_experts, 2 * intermediate_size, config.hidden_size}))),
        down_proj(register_parameter("down_proj", torch::empty({num_experts, config.hidden_size, intermediate_size}))),
        hidden_act(config.hidden_act) {}

  /// For each row of `hidden_states` [rows, hidden], sums the outputs of the experts `chosen` [rows, k], weighted by
  /// `weights` [rows, k].
  Tensor forward(const Tensor& hidden_states, const Tensor& chosen, const Tensor& weights) {
    return mix_experts(hidden_act, hidden_states, gate_up_proj, down_proj, chosen, weights);
  }

  void reset_parameters() override {
    init::normal_(gate_up_proj, 0.0, initial_std());
    init::normal_(down_proj, 0.0, initial_std());
  }

  int64_t intermediate_size;
  TP_SHARD(1, intermediate_size, intermediate_size) Tensor gate_up_proj;  // [experts, 2 * intermediate, hidden]
  TP_SHARD(2) Tensor down_proj;                                         // [experts, hidden, intermediate]
  std::string hidden_act;
};

/// Selects each token's experts.
class MixtralTopKRouterImpl : public Module {
 public:
  MixtralTopKRouterImpl(const MixtralConfig& config, int64_t num_experts)
      : Module(config.initializer_range),
        weight(register_parameter("weight", torch::empty({num_experts, config.hidden_size}))),
        top_k(config.num_experts_per_tok) {}

  /// Indices and weights of the experts of each row of `hidden_states` [rows, hidden]: [rows, k].
  std::pair<Tensor, Tensor> forward(const Tensor& hidden_states) {
    const Tensor logits = at::linear(hidden_states, weight).to(at::kFloat);
    const Tensor probabilities = logits.softmax(-1);
    const auto [top, chosen] = probabilities.topk(top_k, -1);
    return {chosen, balance_experts(top / top.sum(-1, /*keepdim=*/true), logits, probabilities, chosen)};
  }

  void reset_parameters() override { init::normal_(weight, 0.0, initial_std()); }

  Tensor weight;  // [experts, hidden]
  int64_t top_k;
};

/// A mixture of experts instead of the feed-forward network.
class STANDS_FOR(llama::LlamaMLP) MixtralSparseMoeBlockImpl : public Module {
 public:
  explicit MixtralSparseMoeBlockImpl(const MixtralConfig& config)
      : Module(config.initializer_range),
        gate(MixtralTopKRouter(config, config.num_local_experts)),
        experts(MixtralExperts(config, config.num_local_experts, config.intermediate_size)) {}

  Tensor forward(const Tensor& hidden_states) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1), hidden = hidden_states.size(2);
    const Tensor rows = hidden_states.view({batch * seq, hidden});
    const auto [chosen, weights] = gate(rows);
    return experts(rows, chosen, weights).view({batch, seq, hidden});
  }

  MixtralTopKRouter gate;
  MixtralExperts experts;
};

using MixtralForCausalLM MODEL_ENTRY("causal-lm") = mistral::MistralForCausalLM;
using MixtralForSequenceClassification MODEL_ENTRY("sequence-classification") =
    mistral::MistralForSequenceClassification;
using MixtralForTokenClassification MODEL_ENTRY("token-classification") = mistral::MistralForTokenClassification;

}  // namespace modular::mixtral
