// Ranges of a config's integers follow from their uses, not from their names: sizes, divisors, and numbers of heads,
// layers and experts; also through constructors' parameters, members and variables. A field has no range if a condition
// around the use reads it, or if nothing needs one. The plan's experts follow from mix_experts.
#pragma once

#include <vector>

#include "modular/modular.h"

namespace modular::ranges {
MODULAR_FAMILY(Ranges);

struct RangesConfig : Config {
  int64_t vocab_size = 16;
  int64_t width = 8;                 // a size
  int64_t type_vocab_size = 0;       // no table of types
  std::optional<int64_t> inner;      // a size if it is given
  int64_t depth = 2;                 // number of layers
  int64_t parts = 2;                 // heads
  int64_t every = 2;                 // a divisor
  int64_t rarely = 0;                // a divisor if it is not 0
  int64_t mixtures = 4;              // experts
  int64_t chosen = 2;                // experts per token
  int64_t num_unused = -1;           // nothing reads it
  int64_t image_size = 12;           // divided by the size of a patch
  int64_t edge = 3;                  // a divisor
  std::vector<int64_t> table_sizes;  // sizes of tables

  bool is_special(int64_t layer) const { return layer % every == 0 || (rarely > 0 && layer % rarely == 0); }
};

class RangesExpertsImpl : public Module {
 public:
  RangesExpertsImpl(int64_t experts, int64_t width)
      : gate_up_proj(register_parameter("gate_up_proj", torch::empty({experts, 2 * width, width}))),
        down_proj(register_parameter("down_proj", torch::empty({experts, width, width}))) {}

  Tensor forward(const Tensor& rows, const Tensor& chosen, const Tensor& weights) {
    return mix_experts("silu", rows, gate_up_proj, down_proj, chosen, weights);
  }

  Tensor gate_up_proj;
  Tensor down_proj;
};

class FSDP_UNIT RangesLayerImpl : public Module {
 public:
  RangesLayerImpl(const RangesConfig& config, int64_t layer)
      : parts(config.parts),
        top_k(config.chosen),
        up(linear(config.width, parts * config.inner.value_or(4), /*bias=*/false)),
        down(linear(parts * config.inner.value_or(4), config.width, /*bias=*/false)),
        gate(linear(config.width, config.mixtures, /*bias=*/false)),
        mixture(RangesExperts(config.mixtures, config.width)),
        special(config.is_special(layer)) {}

  Tensor forward(const Tensor& x) {
    const Tensor rows = x.flatten(0, 1), logits = gate(rows), scores = logits.softmax(-1);
    const auto [weights, chosen] = scores.topk(top_k, -1);
    const Tensor mixed = mixture(rows, chosen, balance_experts(weights, logits, scores, chosen)).view(x.sizes());
    return special ? mixed : mixed + down(at::silu(up(x)));
  }

  TP_LOCAL int64_t parts;
  int64_t top_k;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  nn::Linear gate;
  RangesExperts mixture;
  bool special;
};

class MODEL_ENTRY("causal-lm") FSDP_UNIT RangesForCausalLMImpl : public Module {
 public:
  explicit RangesForCausalLMImpl(const RangesConfig& config)
      : embed(embedding(config.vocab_size, config.width, std::nullopt)),
        layers(ModuleListOf<RangesLayer>()),
        head(linear(config.width, config.vocab_size, /*bias=*/false)) {
    const int64_t patches = config.image_size / config.edge;
    positions = register_parameter("positions", torch::zeros({patches * patches, config.width}));
    if (config.type_vocab_size > 0) types = embedding(config.type_vocab_size, config.width, std::nullopt);
    if (!config.table_sizes.empty()) first = embedding(config.table_sizes[0], config.width, std::nullopt);
    for (int64_t layer = 0; layer < config.depth; ++layer) layers->push_back(RangesLayer(config, layer));
  }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    for (auto& layer : *layers) hidden_states = layer(hidden_states);
    return cross_entropy_outputs(head(hidden_states), batch, next_tokens);
  }

  PP_FIRST TP_VOCAB nn::Embedding embed;
  PP_FIRST nn::Embedding types{nullptr};
  PP_FIRST nn::Embedding first{nullptr};
  PP_FIRST Tensor positions;
  PP_SPLIT ModuleListOf<RangesLayer> layers;
  PP_LAST TP_VOCAB nn::Linear head;
};

}  // namespace modular::ranges
