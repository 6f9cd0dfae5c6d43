// Inputs and outputs of a model, and traversal of the tensors inside arguments.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace modular {

/// libtorch's tensor.
using at::Tensor;

class EmbeddingHeadImpl;

/// A target that the loss ignores.
inline constexpr int64_t kIgnoredTarget = -100;

/// Inputs of an entry's forward. An undefined tensor means "not given".
struct Batch {
  Tensor input_ids;          // [batch, seq] int64; items of a session are ids too; the texts of a sample are
                             // consecutive rows
  Tensor labels;             // int64, or float32 for regression, in the task's shape (tasks.h); one label per sample
                             // of several texts; kIgnoredTarget for no target
  Tensor attention_mask;     // [batch, seq] int64 or bool, 0 for padding; 2 for a prompt token that pooling leaves out
                             // (EmbeddingHeadConfig::include_prompt), which is not padding
  Tensor position_ids;       // [batch, seq] int64; default: 0 … seq - 1, or the model's own positions
  Tensor documents;          // [batch, seq] int64, the document of each token: attention stays within a document
  Tensor token_type_ids;     // [batch, seq] int64, the segment of a pair that each token is in; default: 0
  Tensor pixel_values;       // [images, channels, height, width] float32, as the image processor makes them
  Tensor decoder_input_ids;  // [batch, target_seq] int64; default: the labels shifted right
  Tensor decoder_attention_mask;  // [batch, target_seq] int64 or bool, 0 for padding
  Tensor feature_ids;             // [batch, seq, features] int64: ids of an item's categorical features
  Tensor feature_values;          // [batch, seq, features] float32: an item's numeric features
  Tensor samples;                 // [batch] int64: the position of each row in the run's sample order, which seeds
                                  // dropout; default: 0 … batch - 1
  bool want_logits = false;
  EmbeddingHeadImpl* embedding_head = nullptr;  // sentence entries only, set by the registry; see sentence_embeddings()

  /// The tensor whose first dimensions are rows and positions: the tokens, or the images if there are no tokens.
  const Tensor& leading() const { return input_ids.defined() ? input_ids : pixel_values; }

  /// Calls `visit(name, Tensor&)` for each tensor that files of examples may hold, under its name there.
  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("input_ids", input_ids), visit("labels", labels), visit("attention_mask", attention_mask);
    visit("position_ids", position_ids), visit("documents", documents), visit("token_type_ids", token_type_ids);
    visit("pixel_values", pixel_values);
    visit("decoder_input_ids", decoder_input_ids), visit("decoder_attention_mask", decoder_attention_mask);
    visit("feature_ids", feature_ids), visit("feature_values", feature_values);
  }
  template <class Visitor>
  void tensors(Visitor&& visit) {
    fields([&](const char*, Tensor& tensor) { visit(tensor); });
    visit(samples);
  }
};

/// Outputs of an entry's forward. The loss is a sum; the runtime normalizes it globally over the mesh.
struct Outputs {
  Tensor logits;  // [batch, seq, vocab or labels], [batch, labels] or [batch, hidden], depending on the task; unsharded
                  // on every rank; only if Batch::want_logits
  Tensor loss_sum;     // [] float32, the sum over all targets; only with labels
  Tensor token_count;  // [] int64, the number of targets; only with labels
  Tensor carried;      // the next pipeline stage's input; not in the last stage

  template <class Visitor>
  void tensors(Visitor&& visit) {
    visit(logits), visit(loss_sum), visit(token_count), visit(carried);
  }
};

/// Calls `visit(Tensor&)` for every tensor inside `value`, in a fixed order; values of other types hold no tensors.
template <class Visitor, class T>
void for_each_tensor(T& value, Visitor&& visit) {
  if constexpr (std::is_same_v<T, Tensor>) {
    visit(value);
  } else if constexpr (requires { value.tensors(visit); }) {
    value.tensors(visit);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([&](auto&... element) { (for_each_tensor(element, visit), ...); }, value);
  } else if constexpr (requires {
                         typename T::value_type;
                         value.has_value();
                       }) {
    if (value.has_value()) for_each_tensor(*value, visit);
  } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
    for (Tensor& element : value) visit(element);
  }
}

}  // namespace modular
