// Operations that mix the rows of a batch, of which a data-parallel rank has some, after others that do not.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
};

class AlphaLayerImpl : public Module {
 public:
  explicit AlphaLayerImpl(const AlphaConfig& config)
      : mix(register_module("mix", linear(config.hidden_size, config.hidden_size, false))),
        scale(register_parameter("scale", torch::ones({config.hidden_size}))),
        dropout(register_module("dropout", nn::Dropout(0.1))),
        axes({1}) {}

  Tensor each_row_by_itself(const Tensor& x, const Tensor& mask) {
    const int64_t batch = x.size(0), seq = x.size(1), hidden = x.size(2);
    const Tensor means = x.mean(1, true), largest = x.amax(1, true), spread = x.std(1, false, true);
    const Tensor by_position = mix(x.view({-1, hidden})).view({batch, seq, hidden});
    const Tensor same =
        mix(x.view({-1, hidden}).view({-1, seq, hidden})).view({-1, 1, seq * hidden}).view({batch, seq, -1});
    const Tensor rows = mix(x.view({batch * seq, hidden})).softmax(-1).reshape({batch, seq, -1});
    const Tensor turned = x.transpose(0, 1).cumsum(0).transpose(0, 1).flip(1);
    const Tensor weights = mask.to(torch::kFloat).unsqueeze(-1);
    const Tensor masked = (x * weights).sum(1, true) / weights.sum(1, true).clamp_min(1.0);
    const Tensor first = torch::cat({x.select(1, 0).unsqueeze(1), x.slice(1, 1)}, 1);
    const Tensor zeros = torch::zeros({batch, 1, 1}, x.options());
    const Tensor best = std::get<0>(x.topk(1, 1)) + std::get<0>(x.max(1)).unsqueeze(1);
    const Tensor scores = torch::matmul(x, x.transpose(1, 2)).softmax(-1).matmul(x) * scale;
    const Tensor halves = x.unflatten(2, {2, -1}).flatten(2).repeat({1, 1, 1}).expand_as(x);
    const Tensor indexed = x.index({torch::indexing::Slice(), 0}).unsqueeze(1) + halves.prod(1, true);
    return indexed + x + means + largest + spread + by_position + same + rows + turned + masked + first + zeros + best +
           scores;
  }

  Tensor all_rows(const Tensor& x, const Tensor& ids, const Tensor& positions) {
    const int64_t batch = x.size(0), seq = x.size(1), hidden = x.size(2);
    const Tensor mean = x - x.mean(0, true);
    const Tensor largest = x / x.amax();
    const Tensor shares = x.softmax(0);
    const Tensor sums = x.cumsum(0);
    const Tensor spread = x * torch::std(x);
    const Tensor flipped = x.flip(0);
    const Tensor rolled = x.roll(1, 0);
    const Tensor sorted = std::get<0>(x.sort(0));
    const Tensor sorted_stably = std::get<0>(torch::sort(x, std::optional<bool>(true), 0, false));
    const Tensor turned = x.transpose(0, 1).flip(axes);
    const Tensor normed = torch::batch_norm(x.transpose(1, 2), {}, {}, {}, {}, true, 0.1, 1e-5, false);
    const Tensor viewed = x.view({seq, batch, hidden});
    const Tensor pairs = x.view({-1, 2 * seq, hidden});
    const Tensor halves = x.view({-1, seq, hidden, 3});
    const Tensor joined = x.reshape({positions.size(0), -1});
    const Tensor kept = x.permute({1, 2, 0}).index({"...", torch::indexing::Slice()});
    const Tensor noise = x + torch::rand({hidden});
    const Tensor dropped = x * dropout(scale.unsqueeze(0));
    const Tensor classes = torch::one_hot(ids);
    const Tensor rows_last = x.transpose(0, 1).flatten(0, 1);
    const Tensor selected = x.select(0, 0);
    const Tensor half = x.narrow(0, 0, 2);
    const Tensor chosen = x.index_select(0, torch::zeros({3}, torch::kLong));
    const Tensor numbered = x * torch::arange(batch).view({-1, 1, 1});
    const Tensor by_number = x / static_cast<double>(batch);
    const Tensor totals = x.sum(0).tanh();
    const Tensor products = torch::matmul(x.select(1, 0), x.select(1, 0).t());
    const Tensor count = torch::full({1}, ids.max().item<int64_t>());
    if (ids.sum().gt(0).item<bool>()) return x;
    if (batch > 1) return x;
    return x;
  }

  nn::Linear mix;
  Tensor scale;
  nn::Dropout dropout;
  std::vector<int64_t> axes;
};
TORCH_MODULE(AlphaLayer);

class MODEL_ENTRY("causal-lm") FSDP_UNIT AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        layer(register_module("layer", AlphaLayer(config))),
        head(register_module("head", linear(config.hidden_size, config.vocab_size, false))) {}

  Outputs forward(const Batch& batch) {
    const Tensor embedded = embed(batch.input_ids);
    layer->all_rows(embedded, batch.input_ids, position_ids(batch));
    Tensor logits = head(layer->each_row_by_itself(embedded, batch.attention_mask));
    Outputs outputs;
    if (batch.labels.defined()) {
      const Tensor targets = next_tokens(batch.labels);
      outputs.loss_sum = cross_entropy(logits, targets);
      outputs.token_count = count_targets(targets);
    }
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }

  nn::Embedding embed;
  AlphaLayer layer;
  nn::Linear head;
};
TORCH_MODULE(AlphaForCausalLM);

/// Losses, counts and logits that are not sums over rows or have no rows.
class MODEL_ENTRY("sentence-embedding") FSDP_UNIT AlphaForSentenceEmbeddingImpl : public Module {
 public:
  explicit AlphaForSentenceEmbeddingImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))) {}

  Outputs forward(const Batch& batch) {
    const Tensor rows = embed(batch.input_ids).mean(1);
    Outputs outputs;
    if (batch.labels.defined()) {
      const Tensor scores = rows.matmul(dp::gather(rows).t());
      outputs.loss_sum = cross_entropy(scores, pair_targets(batch.labels)) / 2.0;
      outputs.loss_sum = cross_entropy(rows.matmul(rows.t()), pair_targets(batch.labels));
      outputs.loss_sum = rows.square().mean();
      outputs.loss_sum = rows.square().sum() + embed->weight.square().sum();
      outputs.loss_sum = embed->weight.square().sum();
      outputs.loss_sum = rows.square().sum(1);
      outputs.token_count = batch.labels.max();
    }
    if (batch.want_logits) outputs.logits = dp::gather(rows);
    return outputs;
  }

  nn::Embedding embed;
};
TORCH_MODULE(AlphaForSentenceEmbedding);

}  // namespace modular::alpha
