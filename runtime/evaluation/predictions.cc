#include "runtime/evaluation/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "runtime/data/model_inputs.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

using at::Tensor;

constexpr int64_t kItems = 20;

Predictions most_likely(const Tensor& logits) {
  const Tensor scores = logits.softmax(-1);
  return {{"labels", scores.argmax(-1)}, {"scores", scores}};
}

Predictions predict_rows(const ModelConfig& model, const Batch&, int64_t, const Tensor& logits) {
  const std::string problem = find_problem(model);
  if (problem == "regression") return {{"scores", logits}};
  if (problem.empty()) return most_likely(logits);
  return {{"labels", logits.gt(0.0).to(at::kLong)}, {"scores", logits.sigmoid()}};
}

Predictions predict_tokens(const ModelConfig&, const Batch&, int64_t, const Tensor& logits) {
  const auto [scores, labels] = logits.softmax(-1).max(-1);
  return {{"labels", labels}, {"scores", scores}};
}

Predictions predict_sessions(const ModelConfig&, const Batch& batch, int64_t, const Tensor& logits) {
  const Tensor is_item = (batch.attention_mask.defined() ? batch.attention_mask : batch.input_ids).cpu().ne(0);
  const Tensor last = (is_item.to(at::kLong) * at::arange(is_item.size(1))).argmax(1);
  const Tensor scores = logits.index({at::arange(last.size(0)), last}).softmax(-1);
  const auto [best, items] = scores.topk(std::min(kItems, scores.size(-1)), -1);
  return {{"items", items}, {"scores", best}};
}

Predictions predict_sentences(const ModelConfig&, const Batch&, int64_t samples, const Tensor& logits) {
  return {{"embeddings", logits.size(0) == samples ? logits : logits.unflatten(0, {samples, -1})}};
}

using Predictor = Predictions (*)(const ModelConfig&, const Batch&, int64_t, const Tensor&);

Predictor find(std::string_view task) {
  static constexpr std::pair<std::string_view, Predictor> kinds[] = {{"sequence-classification", predict_rows},
                                                                     {"sentence-pair-classification", predict_rows},
                                                                     {"image-classification", predict_rows},
                                                                     {"token-classification", predict_tokens},
                                                                     {"masked-lm", predict_tokens},
                                                                     {"next-item", predict_sessions},
                                                                     {"masked-item", predict_sessions},
                                                                     {"sentence-embedding", predict_sentences}};
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
      "{} is for {}: use `modrun sample` to generate text with a language model, or `modrun forward` to write logits",
      model.entry->architecture, model.entry->task);
}

}  // namespace modular
