// Checks and warnings of libtorch in a forward: they throw or say something, and nothing else.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t num_hidden_layers = 2;
};

class FSDP_UNIT AlphaLayerImpl : public Module {
 public:
  explicit AlphaLayerImpl(const AlphaConfig& config)
      : size(config.hidden_size),
        up(register_module("up", linear(config.hidden_size, config.hidden_size, false))),
        down(register_module("down", linear(config.hidden_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) {
    TORCH_CHECK(x.dim() == 3, "rank ", x.dim());
    TORCH_CHECK_EQ(x.dim(), 3);
    TORCH_CHECK_GT(size, 0) << "an empty layer";
    TORCH_INTERNAL_ASSERT(x.defined());
    TORCH_WARN("a warning");
    if (size > 4) {
      TORCH_WARN_ONCE("a size of ", size);
    }
    return x + down(at::silu(up(x)));
  }

  int64_t size;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaLayer);

class MODEL_ENTRY("causal-lm") FSDP_UNIT AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        layers(register_module("layers", ModuleListOf<AlphaLayer>())),
        head(register_module("head", linear(config.hidden_size, config.vocab_size, false))) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(AlphaLayer(config));
  }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    for (auto& layer : *layers) hidden_states = layer(hidden_states);
    Tensor logits = head(hidden_states);
    Outputs outputs;
    if (batch.labels.defined()) {
      const Tensor targets = next_tokens(batch.labels);
      outputs.loss_sum = cross_entropy(logits, targets);
      outputs.token_count = count_targets(targets);
    }
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }

  PP_FIRST TP_VOCAB nn::Embedding embed;
  PP_SPLIT ModuleListOf<AlphaLayer> layers;
  PP_LAST TP_VOCAB nn::Linear head;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
