// What a model says of rows, from its logits: classes, numbers, items or embeddings.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/model/tensors.h"

namespace modular {

/// Tensors by the names that a file of predictions has, a row for each sample.
using Predictions = std::vector<std::pair<std::string, at::Tensor>>;

/// Of a batch of `samples` samples, in host memory:
/// - classifiers: "labels" [samples] int64, the likeliest, and "scores" [samples, labels], their probabilities; of
///   several labels a row "labels" [samples, labels] of 0 and 1; of numbers "scores" [samples, numbers] alone
/// - classifiers of tokens, masked-lm: "labels" and "scores" [samples, seq], of each token's likeliest
/// - next-item: "items" and "scores" [samples, items], what is likeliest after the session's last item, at most 20
/// - sentence-embedding: "embeddings" [samples, hidden] or [samples, texts, hidden]
Predictions to_predictions(const ModelConfig& model, const Batch& batch, int64_t samples, const at::Tensor& logits);

/// Says in a sentence why there are none of this entry, or nothing.
std::string prediction_error(const ModelConfig& model);

}  // namespace modular
