// A mixture of experts of matmuls with raw parameters: the sum over inner features is one over ranks.
#pragma once

#include "modular/tiny.h"

namespace modular::reduced {
MODULAR_FAMILY(Reduced);

struct ReducedConfig : tiny::TinyConfig {
  int64_t num_experts = 2;
};

/// Experts with biases, each for every row, and one more network that reads the same rows.
class STANDS_FOR(tiny::TinyMLP) ReducedMixtureImpl : public Module {
 public:
  explicit ReducedMixtureImpl(const ReducedConfig& config)
      : initializer_range(config.initializer_range),
        router(register_module("router", linear(config.hidden_size, config.num_experts, /*bias=*/false))),
        up(register_parameter("up", torch::empty({config.num_experts, config.hidden_size, config.intermediate_size}))),
        up_bias(register_parameter("up_bias", torch::empty({config.num_experts, config.intermediate_size}))),
        down(register_parameter("down",
                                torch::empty({config.num_experts, config.intermediate_size, config.hidden_size}))),
        down_bias(register_parameter("down_bias", torch::empty({config.num_experts, config.hidden_size}))),
        shared_up(register_parameter("shared_up", torch::empty({config.intermediate_size, config.hidden_size}))),
        shared_down(register_parameter("shared_down", torch::empty({config.hidden_size, config.intermediate_size}))) {}

  Tensor forward(const Tensor& hidden_states) {
    const Tensor rows = hidden_states.flatten(0, 1);
    const Tensor inner = torch::relu(torch::matmul(rows, up) + up_bias.unsqueeze(1));
    const Tensor each = torch::matmul(inner, down) + down_bias.unsqueeze(1);
    const Tensor mixed = (each * router(rows).softmax(-1).t().unsqueeze(-1)).sum(0);
    return mixed.view(hidden_states.sizes()) + both(hidden_states);
  }

  /// Two results that ranks sum once, the second of a view with its dimensions swapped.
  Tensor both(const Tensor& hidden_states) {
    const Tensor inner = torch::relu(torch::linear(hidden_states, shared_up));
    return torch::linear(inner, shared_down) + torch::matmul(inner.sin(), shared_down.t());
  }

  void reset_parameters() override {
    init::linear_and_embedding_(*this, initializer_range);
    init::normal_(up, 0.0, initializer_range);
    init::normal_(up_bias, 0.0, initializer_range);
    init::normal_(down, 0.0, initializer_range);
    init::normal_(down_bias, 0.0, initializer_range);
    init::normal_(shared_up, 0.0, initializer_range);
    init::normal_(shared_down, 0.0, initializer_range);
  }

  double initializer_range;
  nn::Linear router;
  TP_SHARD(2) Tensor up;            // [experts, hidden, intermediate]
  TP_SHARD(1) Tensor up_bias;       // [experts, intermediate]
  TP_REDUCE(1) Tensor down;         // [experts, intermediate, hidden]
  Tensor down_bias;                 // [experts, hidden]
  TP_SHARD(0) Tensor shared_up;     // [intermediate, hidden]
  TP_REDUCE(1) Tensor shared_down;  // [hidden, intermediate]
};
TORCH_MODULE(ReducedMixture);

using ReducedForCausalLM MODEL_ENTRY("causal-lm") = tiny::TinyForCausalLM;
}  // namespace modular::reduced
