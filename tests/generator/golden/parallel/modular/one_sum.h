// Values that are added before ranks sum them: one sum for attention and what stands beside it, experts among that.
#pragma once

#include "modular/tiny.h"

namespace modular::one_sum {
MODULAR_FAMILY(OneSum);

struct OneSumConfig : tiny::TinyConfig {
  int64_t num_experts = 2;  // each token has both: between almost equal ones rounding would choose
  bool beside = true;       // experts run in parallel with attention, not after it
};

/// A mixture of experts, and one network for every token after a gate.
class OneSumMixtureImpl : public Module {
 public:
  explicit OneSumMixtureImpl(const OneSumConfig& config)
      : intermediate_size(config.intermediate_size),
        initializer_range(config.initializer_range),
        router(register_module("router", linear(config.hidden_size, config.num_experts, /*bias=*/false))),
        gate_up(register_parameter("gate_up",
                                   torch::empty({config.num_experts, 2 * intermediate_size, config.hidden_size}))),
        down(register_parameter("down", torch::empty({config.num_experts, config.hidden_size, intermediate_size}))),
        shared(register_module("shared", tiny::TinyMLP(config))),
        shared_gate(register_module("shared_gate", linear(config.hidden_size, 1, /*bias=*/true))) {}

  Tensor forward(const Tensor& hidden_states) {
    const Tensor rows = hidden_states.flatten(0, 1);
    const auto [weights, chosen] = router(rows).softmax(-1).topk(2, -1);
    const Tensor mixed = mix_experts("silu", rows, gate_up, down, chosen, weights);
    return mixed.view(hidden_states.sizes()) + shared_gate(hidden_states).sigmoid() * shared(hidden_states);
  }

  void reset_parameters() override {
    init::linear_and_embedding_(*this, initializer_range);
    init::normal_(gate_up, 0.0, initializer_range);
    init::normal_(down, 0.0, initializer_range);
  }

  int64_t intermediate_size;
  double initializer_range;
  nn::Linear router;
  TP_SHARD(1, intermediate_size, intermediate_size) Tensor gate_up;  // [experts, 2 * intermediate, hidden]
  TP_SHARD(2) Tensor down;                                         // [experts, hidden, intermediate]
  tiny::TinyMLP shared;
  nn::Linear shared_gate;
};
TORCH_MODULE(OneSumMixture);

/// A network whose result is needed by itself and added to another one's: two sums, each where it is made.
class OneSumTwiceImpl : public Module {
 public:
  explicit OneSumTwiceImpl(const OneSumConfig& config)
      : initializer_range(config.initializer_range),
        up(register_module("up", linear(config.hidden_size, config.intermediate_size, /*bias=*/true))),
        down(register_module("down", linear(config.intermediate_size, config.hidden_size, /*bias=*/true))),
        up_again(register_module("up_again", linear(config.hidden_size, config.intermediate_size, /*bias=*/true))),
        down_again(register_module("down_again", linear(config.intermediate_size, config.hidden_size, /*bias=*/true))) {
  }

  Tensor forward(const Tensor& hidden_states) {
    const Tensor once = down(activation("gelu", up(hidden_states)));
    return once + down_again(activation("gelu", up_again(once)));
  }

  void reset_parameters() override { init::linear_and_embedding_(*this, initializer_range); }

  double initializer_range;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_COLWISE nn::Linear up_again;
  TP_ROWWISE nn::Linear down_again;
};
TORCH_MODULE(OneSumTwice);

class OneSumLayerImpl : public tiny::TinyLayerImpl {
 public:
  OneSumLayerImpl(const OneSumConfig& config, int64_t layer)
      : TinyLayerImpl(config, layer), beside(config.beside), twice(register_module("twice", OneSumTwice(config))) {
    mlp = register_module("mlp", OneSumMixture(config));
  }

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const Tensor attended = attn(norm_1(hidden_states), mask);
    if (beside) return twice(attended + mlp(norm_2(hidden_states)) + hidden_states);
    const Tensor residual = attended + hidden_states;
    return twice(residual + mlp(norm_2(residual)));
  }

  OneSumMixture mlp;
  bool beside;
  OneSumTwice twice;
};
TORCH_MODULE(OneSumLayer);

using OneSumForCausalLM MODEL_ENTRY("causal-lm") = tiny::TinyForCausalLM;

}  // namespace modular::one_sum
