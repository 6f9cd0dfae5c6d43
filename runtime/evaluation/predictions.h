// Predictions for rows, from a model's logits: classes, numbers, items or embeddings.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/model/tensors.h"

namespace modular {

/// Tensors by their names in a file of predictions, with one row per sample.
using Predictions = std::vector<std::pair<std::string, at::Tensor>>;

/// Predictions for a batch of `samples` samples, in host memory:
/// - classifiers: "labels" [samples] int64, the most likely class, and "scores" [samples, labels], the probabilities;
///   with several labels per row, "labels" is [samples, labels] of 0 and 1; for regression only "scores" [samples,
///   numbers]
/// - token classifiers, masked-lm: "labels" and "scores" [samples, seq] of each token's most likely class
/// - next-item, masked-item: "items" and "scores" [samples, items], the most likely items after the session's last
/// item, at most 20
/// - sentence-embedding: "embeddings" [samples, hidden] or [samples, texts, hidden]
Predictions to_predictions(const ModelConfig& model, const Batch& batch, int64_t samples, const at::Tensor& logits);

/// An error message if the entry has no predictions, else empty.
std::string prediction_error(const ModelConfig& model);

}  // namespace modular
