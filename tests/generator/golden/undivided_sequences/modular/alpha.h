// A sequence that the model makes, of an image's patches: context-parallel ranks divide the batch's positions only.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t num_heads = 2;
  int64_t image_token_index = 15;
};

class AlphaAttentionImpl : public Module {
 public:
  explicit AlphaAttentionImpl(const AlphaConfig& config)
      : num_heads(config.num_heads),
        qkv(linear(config.hidden_size, 3 * config.hidden_size, /*bias=*/false)),
        out(linear(config.hidden_size, config.hidden_size, /*bias=*/false)),
        dropout(nn::Dropout(0.1)) {}

  Tensor forward(const Tensor& x, const AttentionMask& mask) {
    const auto parts = qkv(x).chunk(3, -1);
    return out(attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), mask, /*scale=*/0.5, dropout));
  }

  Tensor by_head(const Tensor& x) { return x.view({x.size(0), x.size(1), num_heads, -1}).transpose(1, 2); }

  int64_t num_heads;
  nn::Linear qkv;
  nn::Linear out;
  nn::Dropout dropout;
};

class FSDP_UNIT MODEL_ENTRY("image-text-to-text") AlphaForConditionalGenerationImpl : public Module {
 public:
  explicit AlphaForConditionalGenerationImpl(const AlphaConfig& config)
      : config(config),
        patches(patch_projection(/*num_channels=*/3, config.hidden_size, /*patch_size=*/2, /*bias=*/false)),
        seeing(AlphaAttention(config)),
        embed_tokens(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        reading(AlphaAttention(config)),
        lm_head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {}

  Outputs forward(const Batch& batch) {
    const Tensor seen = seeing(patches(batch.pixel_values).flatten(2).transpose(1, 2), whole_mask());
    const Tensor embedded = with_images(embed_tokens(batch.input_ids), batch.input_ids, config.image_token_index, seen);
    const Tensor read = reading(embedded, mask_of_text(batch));
    return cross_entropy_outputs(lm_head(read), batch, next_tokens);
  }

  AttentionMask mask_of_text(const Batch& batch) { return causal_mask(batch, /*window=*/0); }

  AlphaConfig config;
  nn::Conv2d patches;
  AlphaAttention seeing;
  nn::Embedding embed_tokens;
  AlphaAttention reading;
  nn::Linear lm_head;
};

}  // namespace modular::alpha
