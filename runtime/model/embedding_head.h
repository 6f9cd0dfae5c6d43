// Sentence embeddings from hidden states: pooling and the layers after it. In Sentence Transformers (Reimers &
// Gurevych) these are modules of their own; they are not part of the transformers models.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/model/config.h"
#include "runtime/model/cp.h"
#include "runtime/model/dropout.h"
#include "runtime/model/functions.h"
#include "runtime/model/init.h"
#include "runtime/model/module.h"

namespace modular {

namespace detail {

/// 1 for the tokens that pooling reads [batch, seq], as `dtype`; all ones where there is no padding.
inline Tensor token_mask(const Tensor& hidden_states, const Tensor& padding, at::ScalarType dtype) {
  if (padding.defined()) return padding.eq(1).to(dtype);
  return at::ones({hidden_states.size(0), hidden_states.size(1)}, hidden_states.options().dtype(dtype));
}

/// The hidden states at the given position of each row: [batch, hidden].
inline Tensor gather_positions(const Tensor& hidden_states, const Tensor& positions) {
  const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
  return hidden_states.flatten(0, 1).index_select(0, positions + at::arange(batch, positions.options()) * seq);
}

inline Tensor cls_pooling(const Tensor& hidden_states, const Tensor& padding) {
  if (!padding.defined()) return hidden_states.select(1, 0);
  return gather_positions(hidden_states, token_mask(hidden_states, padding, at::kInt).argmax(1));
}

inline Tensor mean_of_tokens(const Tensor& hidden_states, const Tensor& padding) {
  return mean_pooling(hidden_states, padding.defined() ? padding.eq(1) : padding);
}

inline Tensor last_token_pooling(const Tensor& hidden_states, const Tensor& padding) {
  const Tensor tokens = token_mask(hidden_states, padding, at::kInt);
  const Tensor last = hidden_states.size(1) - 1 - tokens.flip(1).argmax(1);
  return gather_positions(hidden_states, last) * tokens.any(1, /*keepdim=*/true);  // zero for a row that is all padding
}

inline Tensor max_pooling(const Tensor& hidden_states, const Tensor& padding) {
  const Tensor none = token_mask(hidden_states, padding, at::kBool).logical_not();
  const Tensor found =
      std::get<0>(hidden_states.masked_fill(none.unsqueeze(-1), -std::numeric_limits<float>::infinity()).max(1));
  return found.masked_fill(none.all(1, /*keepdim=*/true), 0.0);  // for a row that is all padding
}

/// The sum over positions weighted by `weights` [batch, seq], divided by `divisor` [batch].
inline Tensor weighted_sum(const Tensor& hidden_states, const Tensor& weights, const Tensor& divisor) {
  const Tensor sum = (hidden_states * weights.unsqueeze(-1)).sum(1) / divisor.unsqueeze(-1);
  return sum.to(hidden_states.scalar_type());
}

inline Tensor mean_sqrt_len_pooling(const Tensor& hidden_states, const Tensor& padding) {
  const Tensor tokens = token_mask(hidden_states, padding, plain::wide(hidden_states.scalar_type()));
  return weighted_sum(hidden_states, tokens, tokens.sum(1).clamp_min(1e-9).sqrt());
}

/// Positions count from the first token of the row, also where that is a prompt's.
inline Tensor weighted_mean_pooling(const Tensor& hidden_states, const Tensor& padding) {
  const Tensor tokens = token_mask(hidden_states, padding, plain::wide(hidden_states.scalar_type()));
  Tensor position = at::arange(1, tokens.size(1) + 1, tokens.options()).unsqueeze(0);
  if (padding.defined()) position = position - padding.ne(0).to(at::kInt).argmax(1).unsqueeze(1);
  const Tensor weights = tokens * position;
  return weighted_sum(hidden_states, weights, weights.sum(1).clamp_min(1e-9));
}

/// A pooling mode under its name in Sentence Transformers: [batch, seq, hidden] to [batch, hidden]. `padding` is 1 for
/// the tokens that it reads, and may be another number than 0 for tokens that it does not.
struct Pooling {
  std::string_view name;
  Tensor (*pool)(const Tensor& hidden_states, const Tensor& padding);
};

inline constexpr std::array kPoolings = {
    Pooling{"cls", cls_pooling},
    Pooling{"max", max_pooling},
    Pooling{"mean", mean_of_tokens},
    Pooling{"mean_sqrt_len_tokens", mean_sqrt_len_pooling},
    Pooling{"lasttoken", last_token_pooling},
    Pooling{"weightedmean", weighted_mean_pooling},
};

/// An activation function of the dense layers after pooling.
struct DenseActivation {
  std::string_view name;
  Tensor (*apply)(const Tensor& x);
};

inline constexpr std::array kDenseActivations = {
    DenseActivation{"identity", [](const Tensor& x) { return x; }},
    DenseActivation{"tanh", [](const Tensor& x) { return at::tanh(x); }},
    DenseActivation{"relu", [](const Tensor& x) { return at::relu(x); }},
    DenseActivation{"gelu", [](const Tensor& x) { return at::gelu(x); }},
    DenseActivation{"silu", [](const Tensor& x) { return at::silu(x); }},
    DenseActivation{"sigmoid", [](const Tensor& x) { return at::sigmoid(x); }},
};

/// The row with this name, or null.
template <class Table>
const typename Table::value_type* find_named(const Table& table, std::string_view name) {
  for (const auto& row : table)
    if (row.name == name) return &row;
  return nullptr;
}

template <class Table>
std::string get_names(const Table& table) {
  std::string names;
  for (const auto& row : table) names.append(names.empty() ? "" : ", ").append(row.name);
  return names;
}

inline std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(by, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Divides vectors by their length, as torch.nn.functional.normalize does.
inline Tensor of_unit_length(const Tensor& x) { return x / x.norm(2, {-1}, /*keepdim=*/true).clamp_min(1e-12); }

}  // namespace detail

/// A layer after pooling, or the one before it.
struct EmbeddingLayer {
  enum class Kind { normalize, normalize_tokens, dropout, dense };
  Kind kind = Kind::normalize;
  double dropout = 0.0;  // probability of a dropout layer
  int64_t features = 0;  // output size of a dense layer
  std::string activation = "identity";
  bool has_bias = true;

  bool is_dense() const { return kind == Kind::dense; }
};

/// Config fields of sentence entries: how to compute embeddings from hidden states.
struct EmbeddingHeadConfig {
  std::string pooling = "mean";               // a mode, or several joined by "+", which are concatenated
  std::vector<std::string> embedding_layers;  // after pooling: "normalize", "dropout P", "dense SIZE ACTIVATION" with
                                              // or without "no-bias"; before it, as the first: "normalize-tokens"
  bool include_prompt = true;  // false: pooling leaves out tokens whose attention_mask is 2, which are a prompt's

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("pooling", pooling);
    visit("embedding_layers", embedding_layers);
    visit("include_prompt", include_prompt);
  }

  std::vector<std::string_view> poolings() const { return detail::split(pooling, '+'); }

  /// Parses embedding_layers. Throws ConfigError for an unknown layer or order.
  std::vector<EmbeddingLayer> layers() const {
    std::vector<EmbeddingLayer> read;
    for (const std::string& text : embedding_layers) {
      read.push_back(find_layer(text));
      if (read.back().kind == EmbeddingLayer::Kind::normalize_tokens && read.size() > 1)
        throw ConfigError("embedding_layers has \"" + text + "\" after \"" + embedding_layers[read.size() - 2] +
                          "\": write it first, as it is before pooling");
    }
    return read;
  }

  /// The embedding size. Throws ConfigError for an unknown pooling mode or layer.
  int64_t embedding_size(int64_t hidden_size) const {
    int64_t size = 0;
    for (const std::string_view name : poolings()) {
      if (!detail::find_named(detail::kPoolings, name))
        throw ConfigError("pooling is \"" + pooling + "\": write one of " + detail::get_names(detail::kPoolings) +
                          ", or several with \"+\" between them");
      size += hidden_size;
    }
    for (const EmbeddingLayer& layer : layers())
      if (layer.is_dense()) size = layer.features;
    return size;
  }

 private:
  static EmbeddingLayer find_layer(const std::string& text) {
    using Kind = EmbeddingLayer::Kind;
    const std::vector<std::string_view> words = detail::split(text, ' ');
    const auto is_number = [&](auto& number) {
      const auto end = words[1].data() + words[1].size();
      const auto found = std::from_chars(words[1].data(), end, number);
      return found.ec == std::errc() && found.ptr == end;
    };
    EmbeddingLayer layer;
    if (text == "normalize") return layer;
    if (text == "normalize-tokens") {
      layer.kind = Kind::normalize_tokens;
      return layer;
    }
    if (words.size() == 2 && words[0] == "dropout" && is_number(layer.dropout) && layer.dropout >= 0.0 &&
        layer.dropout < 1.0) {
      layer.kind = Kind::dropout;
      return layer;
    }
    const bool complete = words.size() == 3 || (words.size() == 4 && words[3] == "no-bias");
    if (!complete || words[0] != "dense" || !is_number(layer.features) || layer.features < 1 ||
        !detail::find_named(detail::kDenseActivations, words[2]))
      throw ConfigError("embedding_layers has \"" + text +
                        "\": write \"normalize\", or \"dense\", a size and an activation, as in \"dense 512 tanh\" "
                        "or \"dense 512 tanh no-bias\", or \"dropout\" and a probability below 1, or, as the first, "
                        "\"normalize-tokens\"; the activations are " +
                        detail::get_names(detail::kDenseActivations));
    layer.kind = Kind::dense;
    layer.activation = words[2];
    layer.has_bias = words.size() == 3;
    return layer;
  }
};

/// A family's config extended with the fields of EmbeddingHeadConfig, for its sentence entries.
template <class Config>
struct EmbeddingConfig : Config {
  EmbeddingHeadConfig head;
  bool keeps_size = false;  // requires embedding size = hidden size, which a pair classifier reads

  int64_t hidden_states_size() const {
    if constexpr (requires { Config::hidden_size; })
      return Config::hidden_size;
    else if constexpr (requires { Config::d_model; })
      return Config::d_model;
    else
      return Config::dim;
  }

  void finish() {
    if constexpr (requires { Config::finish(); }) Config::finish();
    const int64_t size = head.embedding_size(hidden_states_size());
    if (keeps_size && size != hidden_states_size())
      throw ConfigError("pooling and embedding_layers produce embeddings of " + std::to_string(size) +
                        " features, but the pair classifier needs " + std::to_string(hidden_states_size()) +
                        ": remove the layers or pooling modes that change the size");
  }

  template <class Visitor>
  void fields(Visitor&& visit) {
    Config::fields(visit);
    head.fields(visit);
  }
};

/// A linear layer and an activation function after pooling.
class EmbeddingDenseImpl : public Module {
 public:
  EmbeddingDenseImpl(int64_t in_features, const EmbeddingLayer& layer)
      : linear(register_module("linear", modular::linear(in_features, layer.features, layer.has_bias))),
        apply_(detail::find_named(detail::kDenseActivations, layer.activation)->apply) {}

  Tensor forward(const Tensor& x) { return apply_(linear(x)); }

  /// Uses the same distributions as torch.nn.Linear.
  void reset_parameters() override {
    const double limit = 1.0 / std::sqrt(static_cast<double>(linear->options.in_features()));
    init::uniform_(linear->weight, -limit, limit);
    init::uniform_(linear->bias, -limit, limit);
  }

  nn::Linear linear;

 private:
  Tensor (*apply_)(const Tensor&);
};
TORCH_MODULE(EmbeddingDense);

/// Pooling and the layers around it. Dense and dropout layers are submodules named by their index in embedding_layers.
/// The registry adds this module to each sentence entry and sets Batch::embedding_head to it.
class EmbeddingHeadImpl : public Module {
 public:
  EmbeddingHeadImpl(const EmbeddingHeadConfig& config, int64_t hidden_size) : includes_prompt_(config.include_prompt) {
    int64_t size = 0;
    for (const std::string_view name : config.poolings()) {
      pools_.push_back(detail::find_named(detail::kPoolings, name)->pool);
      size += hidden_size;
    }
    const std::vector<EmbeddingLayer> layers = config.layers();
    for (size_t index = 0; index < layers.size(); ++index) {
      const EmbeddingLayer& layer = layers[index];
      const std::string name = std::to_string(index);
      switch (layer.kind) {
        case EmbeddingLayer::Kind::normalize_tokens:
          normalizes_tokens_ = true;
          break;
        case EmbeddingLayer::Kind::normalize:
          layers_.emplace_back(detail::of_unit_length);
          break;
        case EmbeddingLayer::Kind::dropout:
          layers_.push_back(call(register_module(name, nn::Dropout(layer.dropout))));
          break;
        case EmbeddingLayer::Kind::dense:
          layers_.push_back(call(register_module(name, EmbeddingDense(std::exchange(size, layer.features), layer))));
          break;
      }
    }
  }

  /// - hidden_states [batch, seq, hidden]
  /// - padding [batch, seq] int64 or bool, 0 for padding and 2 for a prompt's token, which is left out where
  ///   include_prompt is false; or undefined
  /// - returns [batch, size]
  Tensor forward(const Tensor& hidden_states, const Tensor& padding) {
    const Tensor mask = padding.defined() && includes_prompt_ ? padding.ne(0) : padding;
    const Tensor tokens = normalizes_tokens_ ? detail::of_unit_length(hidden_states) : hidden_states;
    std::vector<Tensor> pooled;
    for (const auto pool : pools_) pooled.push_back(pool(tokens, mask));
    Tensor embeddings = pooled.size() == 1 ? pooled[0] : at::cat(pooled, -1);
    for (const auto& layer : layers_) embeddings = layer(embeddings);
    return embeddings;
  }

 private:
  template <class Layer>
  static std::function<Tensor(const Tensor&)> call(std::shared_ptr<Layer> layer) {
    return [layer = std::move(layer)](const Tensor& x) { return layer->forward(x); };
  }

  bool includes_prompt_, normalizes_tokens_ = false;
  std::vector<Tensor (*)(const Tensor&, const Tensor&)> pools_;
  std::vector<std::function<Tensor(const Tensor&)>> layers_;  // after pooling
};
TORCH_MODULE(EmbeddingHead);

/// Sentence embeddings according to `pooling` and `embedding_layers` of the config; mean pooling if the registry did
/// not build the model.
/// - hidden_states [batch, seq, hidden]
/// - returns [batch, size]
inline Tensor sentence_embeddings(const Tensor& hidden_states, const Batch& batch) {
  if (!batch.embedding_head) return mean_pooling(hidden_states, batch.attention_mask);
  const Tensor tokens = cp::whole(hidden_states), padding = cp::whole(batch.attention_mask);
  Parallel parallel = bound;
  parallel.context = nullptr;  // the head reads all positions
  const Binding binding(parallel);
  return batch.embedding_head->forward(tokens, padding);
}

}  // namespace modular
