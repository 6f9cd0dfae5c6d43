// Images and texts that belong together: a tower for each, cut between them by pipelines, and a loss over all ranks'
// rows.
#pragma once

#include "modular/encoder.h"

namespace modular::pairs {
MODULAR_FAMILY(Pairs);

struct PairsConfig : encoder::EncoderConfig {
  double logit_scale_init_value = 2.3;
  int64_t projection_dim = 128;
};

class PairsTextModelImpl : public Module {
 public:
  explicit PairsTextModelImpl(const PairsConfig& config)
      : Module(config.initializer_range),
        config(config),
        table(register_module("table", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        layers(register_module("layers", ModuleListOf<encoder::EncoderLayer>())) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(encoder::EncoderLayer(config));
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = tp::gather(table(batch.input_ids));
    const AttentionMask mask = causal_mask(batch, /*window=*/0);
    for (auto& layer : *layers) hidden_states = layer(hidden_states, mask);
    return mean_pooling(hidden_states, batch.attention_mask);
  }

  PairsConfig config;
  TP_SHARD(1) nn::Embedding table;
  ModuleListOf<encoder::EncoderLayer> layers;
};
TORCH_MODULE(PairsTextModel);

class PairsVisionModelImpl : public Module {
 public:
  explicit PairsVisionModelImpl(const PairsConfig& config)
      : Module(config.initializer_range),
        config(config),
        patches(register_module("patches", patch_projection(config.num_channels, config.hidden_size, config.patch_size,
                                                            /*bias=*/true))),
        layers(register_module("layers", ModuleListOf<encoder::EncoderLayer>())) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(encoder::EncoderLayer(config));
  }

  Tensor forward(const Tensor& pixel_values) {
    Tensor hidden_states = patches(pixel_values).flatten(2).transpose(1, 2);
    const AttentionMask mask = whole_mask();
    for (auto& layer : *layers) hidden_states = layer(hidden_states, mask);
    return hidden_states.mean(1);
  }

  PairsConfig config;
  nn::Conv2d patches;
  ModuleListOf<encoder::EncoderLayer> layers;
};
TORCH_MODULE(PairsVisionModel);

class MODEL_ENTRY("contrastive-pairs") FSDP_UNIT PairsModelImpl : public Module {
 public:
  explicit PairsModelImpl(const PairsConfig& config)
      : config(config),
        vision_model(register_module("vision_model", PairsVisionModel(config))),
        text_model(register_module("text_model", PairsTextModel(config))),
        projection(register_module("projection", linear(config.hidden_size, config.projection_dim, /*bias=*/false))),
        logit_scale(register_parameter("logit_scale", torch::empty({}))) {}

  /// Of each text against the images of all ranks.
  Tensor scores(const Tensor& texts, const Tensor& images) {
    return texts.matmul(dp::gather(images).t()) * logit_scale.exp();
  }

  Outputs forward(const Batch& batch) {
    const Tensor images = unit_rows(projection(vision_model(batch.pixel_values)));
    const Tensor texts = unit_rows(projection(text_model(batch)));
    Outputs outputs;
    if (batch.labels.defined()) {
      const Tensor targets = pair_targets(batch.labels);
      outputs.loss_sum = sigmoid_pair_loss(scores(texts, images), targets);
      outputs.token_count = count_targets(targets);
    }
    if (batch.want_logits) outputs.logits = scores(texts, images);
    return outputs;
  }

  void reset_parameters() override {
    init::uniform_(projection->weight, -0.1, 0.1);
    init::constant_(logit_scale, config.logit_scale_init_value);
  }

  PairsConfig config;
  PP_FIRST PairsVisionModel vision_model;
  PP_LAST PairsTextModel text_model;
  PP_ALL nn::Linear projection;
  PP_LAST Tensor logit_scale;  // []
};
TORCH_MODULE(PairsModel);

}  // namespace modular::pairs
