// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t size = 8;
  int64_t layers = 2;
  bool tie_word_embeddings = true;
};

class FSDP_UNIT AlphaLayerImpl : public Module {
 public:
  explicit AlphaLayerImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.size, config.size, false))) {}

  Tensor forward(const Tensor& x, const Tensor& scale) { return x + proj(x) * scale; }

  nn::Linear proj;
};
TORCH_MODULE(AlphaLayer);

/// Holds what the model walks, and a table that every stage reads.
class AlphaEncoderImpl : public Module {
 public:
  explicit AlphaEncoderImpl(const AlphaConfig& config)
      : layer(register_module("layer", ModuleListOf<AlphaLayer>())),
        scale(register_parameter("scale", torch::ones({config.size}))) {
    for (int64_t i = 0; i < config.layers; ++i) layer->push_back(AlphaLayer(config));
  }

  PP_SPLIT ModuleListOf<AlphaLayer> layer;
  PP_ALL Tensor scale;
};
TORCH_MODULE(AlphaEncoder);

class AlphaHeadImpl : public Module {
 public:
  explicit AlphaHeadImpl(const AlphaConfig& config)
      : bias(register_parameter("bias", torch::zeros({config.vocab_size}))),
        decoder(register_module("decoder", linear(config.size, config.vocab_size, true))) {}

  Tensor forward(const Tensor& x) { return decoder(x); }

  Tensor bias;
  TIES(nn::LinearImpl::bias, bias) nn::Linear decoder;
};
TORCH_MODULE(AlphaHead);

class MODEL_ENTRY("masked-lm", "AlphaPredictor") FSDP_UNIT AlphaForMaskedLMImpl : public Module {
 public:
  explicit AlphaForMaskedLMImpl(const AlphaConfig& config)
      : config(config),
        words(register_module("words", embedding(config.vocab_size, config.size, std::nullopt))),
        encoder(register_module("encoder", AlphaEncoder(config))),
        head(register_module("head", AlphaHead(config))) {}

  Outputs forward(const Batch& batch) {
    Tensor x = words(batch.input_ids);
    for (auto& layer : *encoder->layer) x = layer(x, encoder->scale);
    return {.logits = head(x), .loss_sum = {}, .token_count = {}, .carried = {}};
  }

  AlphaConfig config;
  PP_FIRST nn::Embedding words;
  AlphaEncoder encoder;
  PP_LAST TIES(AlphaHeadImpl::decoder->weight, words->weight) AlphaHead head;
};
TORCH_MODULE(AlphaForMaskedLM);

}  // namespace modular::alpha
