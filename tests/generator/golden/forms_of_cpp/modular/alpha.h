// Forms of C++ that are taken as they stand: std::tie, std::move, an integer switch, designated initializers, get().
#pragma once

#include <tuple>
#include <utility>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t intermediate_size = 16;
  int64_t num_hidden_layers = 2;
  int64_t kind = 1;
};

/// What a layer gives.
struct AlphaPair {
  Tensor first;
  Tensor second;
};

class FSDP_UNIT AlphaLayerImpl : public Module {
 public:
  AlphaLayerImpl(const AlphaConfig& config, int64_t layer)
      : up(linear(config.hidden_size, config.intermediate_size, /*bias=*/false)),
        down(linear(config.intermediate_size, config.hidden_size, /*bias=*/false)) {
    const int64_t half = config.kind / 2;
    kind = half + layer;
  }

  AlphaPair both(const Tensor& x) { return {.first = up(x), .second = up(x)}; }
  std::tuple<Tensor, Tensor> two(const Tensor& x) { return {up(x), up(x)}; }

  Tensor forward(const Tensor& x) {
    Tensor a, b;
    std::tie(a, b) = two(x);
    AlphaPair pair = both(x);
    Tensor h = std::move(a);
    switch (kind) {
      case 0:
        h = at::silu(h);
        break;
      case 1:
      case 2:
        h = at::relu(h);
        break;
      default:
        h = at::gelu(h);
    }
    return x + down(h * pair.first + pair.second);
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  int64_t kind = 0;
};

class MODEL_ENTRY("causal-lm") FSDP_UNIT AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        layers(ModuleListOf<AlphaLayer>()),
        head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(AlphaLayer(config, layer));
  }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    for (auto& layer : *layers) hidden_states = layer.get()->forward(hidden_states);
    Tensor logits = head(hidden_states);
    Outputs outputs;
    if (batch.labels.defined()) {
      const Tensor targets = next_tokens(batch.labels);
      outputs.loss_sum = cross_entropy(logits, targets);
      outputs.token_count = count_targets(targets);
    }
    if (batch.want_logits) outputs.logits = std::move(logits);
    return outputs;
  }

  PP_FIRST TP_VOCAB nn::Embedding embed;
  PP_SPLIT ModuleListOf<AlphaLayer> layers;
  PP_LAST TP_VOCAB nn::Linear head;
};

}  // namespace modular::alpha
