// Stages of a pipeline that compute several things of the batch for themselves: layers of two kinds with a mask each, a
// scaled embedding that only the first stage makes, and a scaled result that only the last one has.
#pragma once

#include "modular/tiny.h"

namespace modular::local_global {
MODULAR_FAMILY(LocalGlobal);

struct LocalGlobalConfig : tiny::TinyConfig {
  int64_t sliding_window = 4;
};

class FSDP_UNIT LocalGlobalLayerImpl : public tiny::TinyLayerImpl {
 public:
  LocalGlobalLayerImpl(const LocalGlobalConfig& config, int64_t layer)
      : TinyLayerImpl(config, layer), is_sliding(layer % 2 == 0) {}

  bool is_sliding;
};
TORCH_MODULE(LocalGlobalLayer);

class LocalGlobalModelImpl : public tiny::TinyModelImpl {
 public:
  using TinyModelImpl::TinyModelImpl;

  Tensor forward(const Batch& batch) {
    const double scale = std::sqrt(static_cast<double>(config.hidden_size));
    const Tensor embedded = embed(batch.input_ids);
    Tensor hidden_states = embedded * scale;
    const AttentionMask full = causal_mask(batch.attention_mask, /*window=*/0);
    const AttentionMask sliding = causal_mask(batch.attention_mask, config.sliding_window);
    for (auto& layer : *layers) {
      const AttentionMask& mask = layer->is_sliding ? sliding : full;
      hidden_states = layer(hidden_states, mask);
    }
    hidden_states = norm(hidden_states);
    return hidden_states * (1.0 / scale);
  }

  LocalGlobalConfig config;
  PP_SPLIT ModuleListOf<LocalGlobalLayer> layers;

 private:
  using TinyModelImpl::positions;
};
TORCH_MODULE(LocalGlobalModel);

using LocalGlobalForCausalLM MODEL_ENTRY("causal-lm") = tiny::TinyForCausalLM;

}  // namespace modular::local_global
