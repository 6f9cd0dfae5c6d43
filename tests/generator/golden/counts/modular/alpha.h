// Counts that stay shares: products, sums and exact quotients, whichever constructor computes them.
#pragma once

#include <optional>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t num_heads = 4;
  int64_t num_groups = 2;
  std::optional<int64_t> head_dim = 4;
};

class AlphaHeadsImpl : public Module {
 public:
  AlphaHeadsImpl(const AlphaConfig& config, int64_t heads, int64_t groups)
      : head_dim(*config.head_dim),
        fused(register_module(
            "fused", linear(config.hidden_size, heads * *config.head_dim + groups * config.head_dim.value(), false))),
        up(register_module("up", linear(config.hidden_size, 2 * heads * *config.head_dim, false))),
        down(register_module("down", linear(heads * *config.head_dim, config.hidden_size, false))),
        merge(register_module("merge", linear(2 * heads * *config.head_dim, config.hidden_size, false))) {
    num_heads = heads;
    num_groups = 2 * groups / 2;
  }
  Tensor forward(const Tensor& x) {
    const auto parts = fused(x).split_with_sizes({num_heads * head_dim, num_groups * head_dim}, -1);
    const int64_t twice = num_heads * 2;
    const Tensor heads = up(x).view({x.size(0), x.size(1), twice, head_dim}).softmax(-1).flatten(2);
    const Tensor halves = up(x).view({x.size(0), x.size(1), twice / 2, 2 * head_dim}).softmax(-1).flatten(2);
    return down(parts[0]) + merge(heads) + merge(halves);
  }

  TP_LOCAL int64_t num_heads;
  TP_LOCAL int64_t num_groups;
  int64_t head_dim;
  TP_COLWISE_PARTS(num_heads * head_dim, num_groups * head_dim) nn::Linear fused;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_ROWWISE nn::Linear merge;
};
TORCH_MODULE(AlphaHeads);

class MODEL_ENTRY("causal-lm") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        heads(register_module("heads", AlphaHeads(config, config.num_heads, config.num_groups))),
        head(register_module("head", linear(config.hidden_size, config.vocab_size, false))) {}
  Outputs forward(const Batch& batch) {
    Outputs outputs;
    outputs.logits = head(heads(embed(batch.input_ids)));
    return outputs;
  }
  nn::Embedding embed;
  AlphaHeads heads;
  nn::Linear head;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
