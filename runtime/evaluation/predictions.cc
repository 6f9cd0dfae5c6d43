#include "runtime/evaluation/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "runtime/checkpoint/examples.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

using at::Tensor;

constexpr int64_t kItems = 20;

Predictions likeliest(const Tensor& logits) {
  const Tensor scores = logits.softmax(-1);
  return {{"labels", scores.argmax(-1)}, {"scores", scores}};
}

Predictions of_rows(const ModelConfig& model, const Batch&, int64_t, const Tensor& logits) {
  const std::string problem = find_problem(model);
  if (problem == "regression") return {{"scores", logits}};
  if (problem.empty()) return likeliest(logits);
  return {{"labels", logits.gt(0.0).to(at::kLong)}, {"scores", logits.sigmoid()}};
}

Predictions of_tokens(const ModelConfig&, const Batch&, int64_t, const Tensor& logits) {
  const auto [scores, labels] = logits.softmax(-1).max(-1);
  return {{"labels", labels}, {"scores", scores}};
}

Predictions of_sessions(const ModelConfig&, const Batch& batch, int64_t, const Tensor& logits) {
  const Tensor is_item = (batch.attention_mask.defined() ? batch.attention_mask : batch.input_ids).cpu().ne(0);
  const Tensor last = (is_item.to(at::kLong) * at::arange(is_item.size(1))).argmax(1);
  const Tensor scores = logits.index({at::arange(last.size(0)), last}).softmax(-1);
  const auto [best, items] = scores.topk(std::min(kItems, scores.size(-1)), -1);
  return {{"items", items}, {"scores", best}};
}

Predictions of_sentences(const ModelConfig&, const Batch&, int64_t samples, const Tensor& logits) {
  return {{"embeddings", logits.size(0) == samples ? logits : logits.unflatten(0, {samples, -1})}};
}

using PredictionsOf = Predictions (*)(const ModelConfig&, const Batch&, int64_t, const Tensor&);

PredictionsOf find(std::string_view task) {
  static constexpr std::pair<std::string_view, PredictionsOf> kinds[] = {{"sequence-classification", of_rows},
                                                                         {"sentence-pair-classification", of_rows},
                                                                         {"image-classification", of_rows},
                                                                         {"token-classification", of_tokens},
                                                                         {"masked-lm", of_tokens},
                                                                         {"next-item", of_sessions},
                                                                         {"masked-item", of_sessions},
                                                                         {"sentence-embedding", of_sentences}};
  const auto found = std::ranges::find(kinds, task, [](const auto& kind) { return kind.first; });
  return found == std::end(kinds) ? nullptr : found->second;
}

}  // namespace

Predictions to_predictions(const ModelConfig& model, const Batch& batch, int64_t samples, const Tensor& logits) {
  return find(model.entry->task)(model, batch, samples, logits.cpu().to(at::kFloat));
}

std::string prediction_error(const ModelConfig& model) {
  if (find(model.entry->task)) return {};
  return fmt::format(
      "{} is for {}: `modrun sample` has a language model write text, and `modrun forward` writes logits",
      model.entry->architecture, model.entry->task);
}

}  // namespace modular
