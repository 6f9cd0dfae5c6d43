// Rows that meet others in entries for which the runtime does not compare them, or are not rows of the batch.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t num_labels = 2;
};

class MODEL_ENTRY("sequence-classification") FSDP_UNIT AlphaForSequenceClassificationImpl : public Module {
 public:
  explicit AlphaForSequenceClassificationImpl(const AlphaConfig& config)
      : embed(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        classifier(linear(config.hidden_size, config.num_labels, /*bias=*/false)) {}

  Outputs forward(const Batch& batch) {
    return classification_outputs(classifier(pooled(batch)), batch, /*problem=*/std::nullopt);
  }
  Tensor pooled(const Batch& batch) { return first_tokens(embed(batch.input_ids)); }

  nn::Embedding embed;
  nn::Linear classifier;
};

struct MODEL_ENTRY("sequence-classification", "AlphaCentred") AlphaCentredForSequenceClassificationImpl
    : AlphaForSequenceClassificationImpl {
  Tensor pooled(const Batch& batch) {
    const Tensor rows = first_tokens(embed(batch.input_ids));
    return rows - dp::gather(rows).mean(0);
  }
};

struct MODEL_ENTRY("sequence-classification", "AlphaCompared") AlphaComparedForSequenceClassificationImpl
    : AlphaForSequenceClassificationImpl {
  Outputs forward(const Batch& batch) {
    const Tensor rows = pooled(batch);
    Outputs outputs = classification_outputs(classifier(rows), batch, /*problem=*/std::nullopt);
    if (batch.labels.defined()) outputs.loss_sum = outputs.loss_sum + sentence_loss(rows, batch.labels);
    return outputs;
  }
};

struct MODEL_ENTRY("sentence-embedding", "AlphaRepeated") AlphaRepeatedForSentenceEmbeddingImpl
    : AlphaForSequenceClassificationImpl {
  Outputs forward(const Batch& batch) {
    return sentence_outputs(pooled(batch) + dp::gather(embed->weight).sum(0), batch);
  }
};

}  // namespace modular::alpha
