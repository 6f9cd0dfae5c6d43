// The values that go into a model and come out of it, and how to reach the tensors inside of an argument list.
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

/// A target that counts for nothing in the loss.
inline constexpr int64_t kIgnoredTarget = -100;

/// What an entry's forward reads. An undefined tensor means "not given".
struct Batch {
  Tensor input_ids;               // [batch, seq] int64; items of a session are ids too; the texts of a sample are rows
                                  // after one another
  Tensor labels;                  // int64, or float32 for numbers, shaped as the task has it (tasks.h), one a sample
                                  // where that has several texts; kIgnoredTarget for no target
  Tensor attention_mask;          // [batch, seq] int64 or bool, 0 for padding; 2 for a token of a prompt that pooling
                                  // leaves out (EmbeddingHeadConfig::include_prompt), and which is no padding
  Tensor position_ids;            // [batch, seq] int64; 0 … seq - 1, or what the model counts, when not given
  Tensor documents;               // [batch, seq] int64, which document a token is of: attention keeps them apart
  Tensor token_type_ids;          // [batch, seq] int64, which segment of a pair a token is in; 0 when not given
  Tensor pixel_values;            // [images, channels, height, width] float32, as the image processor makes them
  Tensor decoder_input_ids;       // [batch, target_seq] int64; the labels shifted right when not given
  Tensor decoder_attention_mask;  // [batch, target_seq] int64 or bool, 0 for padding
  Tensor feature_ids;             // [batch, seq, features] int64: an id of each of an item's categorical features
  Tensor feature_values;          // [batch, seq, features] float32: an item's numbers
  Tensor samples;                 // [batch] int64: the place of each row in the run's order, which dropout follows;
                                  // 0 … batch - 1 when not given
  bool want_logits = false;
  EmbeddingHeadImpl* embedding_head = nullptr;  // of sentence entries, set by the registry; see sentence_embeddings()

  /// The tensor that rows and positions are counted by: the tokens, or the images where there are none.
  const Tensor& leading() const { return input_ids.defined() ? input_ids : pixel_values; }

  /// Calls `visit(name, Tensor&)` for each, under the names that files of examples have.
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

/// What an entry's forward returns. The loss is a sum: its normalization is the runtime's, global over the mesh.
struct Outputs {
  Tensor logits;  // [batch, seq, vocab or labels], [batch, labels] or [batch, hidden], as the task has it and whole on
                  // every rank; only when Batch::want_logits
  Tensor loss_sum;     // [] float32, the sum over all targets; only with labels
  Tensor token_count;  // [] int64, the number of targets; only with labels
  Tensor carried;      // what the next pipeline stage receives; only in a stage that is not the last

  template <class Visitor>
  void tensors(Visitor&& visit) {
    visit(logits), visit(loss_sum), visit(token_count), visit(carried);
  }
};

/// Calls `visit(Tensor&)` for every tensor inside `value`, in a fixed order; other types hold none.
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
