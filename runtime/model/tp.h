// Tensor parallelism (Shoeybi et al., Megatron-LM). modgen weaves these calls into the models. Without a mesh each call
// is the identity, or the unsharded function.
#pragma once

#include <algorithm>

#include "runtime/model/attention.h"
#include "runtime/model/functions.h"
#include "runtime/model/module.h"
#include "runtime/model/outputs.h"
#include "runtime/model/parallel.h"
#include "runtime/model/sampled_softmax.h"
#include "runtime/model/state_space.h"

namespace modular::tp {

/// Runtime interface of a model on a mesh whose `tp` axis is larger than 1. All parameters that the plan splits have
/// their local shapes.
class TensorParallel {
 public:
  virtual ~TensorParallel() = default;
  virtual int64_t size() const = 0;
  virtual int64_t rank() const = 0;
  /// Identity; backward all-reduces the gradient over tp.
  virtual Tensor enter(const Tensor& x) = 0;
  /// All-reduce over tp; backward is the identity.
  virtual Tensor reduce(const Tensor& partial) = 0;
  /// All-reduce over the KV replication group of `ranks` adjacent ranks that share a head or group; backward does the
  /// same.
  virtual Tensor sum_over_kv_group(const Tensor& partial, int64_t ranks) = 0;
  /// All-gather along `dim`; backward keeps this rank's slice.
  virtual Tensor gather(const Tensor& shard, int64_t dim) = 0;
  /// Looks up rows of a table of `rows` rows that is split by row, summed over tp; the last ranks may hold fewer rows,
  /// or none. `ids` and `padding_idx`, whose row gets no gradient, are global.
  virtual Tensor embedding(const Tensor& ids, const Tensor& table_shard, int64_t rows,
                           std::optional<int64_t> padding_idx) = 0;
  /// The sum of -log softmax over a vocabulary that is split over ranks; the last ranks may hold fewer entries, or
  /// none.
  virtual Tensor cross_entropy(const Tensor& logits_shard, const Tensor& targets) = 0;
};

/// Runtime interface of sequence parallelism (Korthikanti et al., Reducing activation recomputation in large
/// transformer models): between layers, each tp rank holds an equal part of the positions. `dim` is the dimension of
/// the positions.
class SequenceParallel {
 public:
  virtual ~SequenceParallel() = default;
  /// This rank's part of a value that every rank has; backward all-gathers the gradient.
  virtual Tensor part(const Tensor& x, int64_t dim) = 0;
  /// All-gather; backward keeps this rank's part of the gradient, which every rank has.
  virtual Tensor whole(const Tensor& share, int64_t dim) = 0;
  /// All-gather; backward reduce-scatters the gradient.
  virtual Tensor enter(const Tensor& share, int64_t dim) = 0;
  /// Reduce-scatter; backward all-gathers the gradient.
  virtual Tensor exit(const Tensor& partial, int64_t dim) = 0;
};

/// The index of this rank's slice of a split value.
inline int64_t slice_index() { return bound.tp ? bound.tp->rank() : 0; }

/// A rank's slice of a count.
struct Share {
  int64_t count = 0;
  int64_t sharers = 1;  // adjacent ranks that hold the same element; above 1, `count` is 1
  operator int64_t() const { return count; }
};

/// This rank's slice of a count that is split over tp. The plan has proven divisibility. There may be fewer heads or
/// groups than ranks if each serves several others.
inline Share local(int64_t count) {
  if (!bound.tp) return {count};
  const int64_t ranks = bound.tp->size();
  return count < ranks ? Share{1, ranks / std::max<int64_t>(count, 1)} : Share{count / ranks};
}

/// Marks where a value that every rank has in full, such as a parameter, enters computations that are split; backward
/// all-reduces the gradient.
inline Tensor shared(const Tensor& x) { return bound.tp ? bound.tp->enter(x) : x; }

/// Marks where a value between layers enters layers that are split by output feature. With sequence parallelism each
/// rank has a part of the positions, and this gathers them.
/// - x [..., features]: each rank's positions along `dim`
/// - returns [..., features]: all positions
inline Tensor enter(const Tensor& x, int64_t dim = -2) {
  return bound.sequence ? bound.sequence->enter(x, dim) : shared(x);
}

/// The part of the positions that this rank holds between layers. Without sequence parallelism, returns `x`.
/// - x [..., features]: all positions along `dim`
inline Tensor part(const Tensor& x, int64_t dim = -2) {
  return bound.sequence && x.defined() ? bound.sequence->part(x, dim) : x;
}

/// All positions of a value between layers. Without sequence parallelism, returns `x`.
/// - x [..., features]: this rank's positions along `dim`
inline Tensor whole(const Tensor& x, int64_t dim = -2) { return bound.sequence ? bound.sequence->whole(x, dim) : x; }

/// The number of all positions; `size` is that of a value between layers.
inline int64_t whole_size(int64_t size) { return bound.sequence ? size * bound.tp->size() : size; }

/// Reduces partial sums over tp to a value that every rank has in full.
inline Tensor reduce(const Tensor& partial) { return bound.tp ? bound.tp->reduce(partial) : partial; }

/// Reduces partial sums over tp to a value between layers: with sequence parallelism, each rank's positions along
/// `dim`.
inline Tensor exit(const Tensor& partial, int64_t dim = -2) {
  return bound.sequence ? bound.sequence->exit(partial, dim) : reduce(partial);
}

/// Applies a linear layer without its bias.
template <class Linear>
Tensor without_bias(const Linear& layer, const Tensor& x) {
  return layer.adapted(layer.gemm(x, /*added=*/{}), x);
}

/// Applies a layer that is split by input feature to this rank's features, sums over tp like exit(partial, dim), and
/// adds the bias once.
template <class Linear>
Tensor exit(Linear& row_wise, const Tensor& x, int64_t dim = -2) {
  if (!bound.tp) return row_wise->forward(x);
  const Tensor sum = exit(without_bias(*row_wise, x), dim);
  return row_wise->bias.defined() ? sum + row_wise->bias : sum;
}

/// Applies a layer that is split by input feature, like exit(), to a result that every rank has in full.
template <class Linear>
Tensor reduce(Linear& row_wise, const Tensor& x) {
  if (!bound.tp) return row_wise->forward(x);
  const Tensor sum = reduce(without_bias(*row_wise, x));
  return row_wise->bias.defined() ? sum + row_wise->bias : sum;
}

/// Applies a layer that is split by input feature and returns this rank's partial sum, for results that are added
/// before they are reduced. One rank's result includes the bias; the bias has its full gradient on every rank.
template <class Linear>
Tensor partial(Linear& row_wise, const Tensor& x) {
  if (!bound.tp) return row_wise->forward(x);
  const Tensor part = without_bias(*row_wise, x);
  if (!row_wise->bias.defined()) return part;
  return part + (bound.tp->rank() == 0 ? row_wise->bias : row_wise->bias - row_wise->bias.detach());
}

/// Looks up an embedding whose table is split by vocabulary.
template <class Embedding>
Tensor embedding(Embedding& table, const Tensor& ids) {
  if (!bound.tp) return table->forward(ids);
  return bound.tp->embedding(ids, table->weight, table->options.num_embeddings(), table->options.padding_idx());
}

/// Layer norm of values that are split along a dimension other than the last. Each rank has a part of the gradients of
/// the layer's parameters; these are summed over tp.
template <class LayerNorm>
Tensor layer_norm(LayerNorm& norm, const Tensor& x) {
  if (!bound.tp) return norm->forward(x);
  const auto to_shared = [](const Tensor& parameter) { return parameter.defined() ? shared(parameter) : parameter; };
  return at::layer_norm(x, norm->weight.sizes(), to_shared(norm->weight), to_shared(norm->bias), norm->eps);
}

/// Root mean square norm of values that are split along their last dimension, like `weight`. The squares are summed
/// over tp.
inline Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  if (!bound.tp) return modular::rms_norm(x, weight, eps);
  const Tensor values = x.to(plain::wide(x.scalar_type()));
  // Every rank divides its slice by this sum, so each contributes a part of its gradient.
  const Tensor squares = bound.tp->enter(bound.tp->reduce(values.pow(2).sum(-1, /*keepdim=*/true)));
  const Tensor normalized = values * at::rsqrt(squares / (x.size(-1) * bound.tp->size()) + eps);
  return (weight * normalized.to(weight.scalar_type())).to(x.scalar_type());
}

/// gated_rms_norm() over this rank's groups. If ranks share a group, the squares are summed over those ranks.
inline Tensor gated_rms_norm(const Tensor& x, const Tensor& gate, const Tensor& weight, const Share& groups,
                             double eps) {
  if (groups.sharers == 1) return modular::gated_rms_norm(x, gate, weight, groups.count, eps);
  const Tensor wide = x.to(at::kFloat) * at::silu(gate.to(at::kFloat));
  const Tensor squares = bound.tp->sum_over_kv_group(wide.pow(2).sum(-1, /*keepdim=*/true), groups.sharers);
  const Tensor normed = wide * at::rsqrt(squares / (x.size(-1) * groups.sharers) + eps);
  return weight * normed.to(x.scalar_type());
}

/// ALiBi's slopes of this rank's heads; `heads` is their number.
inline Tensor alibi_slopes(int64_t heads, const at::Device& device) {
  if (!bound.tp) return modular::alibi_slopes(heads, device);
  return modular::alibi_slopes(heads * bound.tp->size(), device).narrow(0, bound.tp->rank() * heads, heads);
}

/// Cross entropy over logits that are split by vocabulary: the sum over all targets, float32.
inline Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  return bound.tp ? bound.tp->cross_entropy(logits, targets) : modular::cross_entropy(logits, targets);
}

/// modular::sampled_cross_entropy() over classes that are split over tp, like `weight` and `bias`. Every rank gets the
/// rows of the sample and computes the same loss.
inline Tensor sampled_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& bias,
                                    const Tensor& targets, double temperature) {
  if (!bound.tp) return modular::sampled_cross_entropy(hidden, weight, bias, targets, temperature);
  const auto rows = [](const Tensor& table, const Tensor& ids) {
    return bound.tp->embedding(ids, table, bound.sampled->log_counts.size(0), std::nullopt);
  };
  return modular::detail::cross_entropy_of_rows(hidden, weight, bias, targets, temperature, rows);
}

/// The elements of a value that a rank has, for a mask that depends on their position in the full value.
enum class Cut {
  features,   // a slice of the features: the value is split over tp
  positions,  // the positions of a value between layers
};

/// This rank's slice of the positions between layers.
inline modular::detail::RowSlice slice_of_positions() {
  return bound.sequence ? modular::detail::RowSlice{bound.tp->rank(), bound.tp->size()} : modular::detail::RowSlice();
}

/// Dropout of a rank's elements of a value.
template <class Dropout>
Tensor dropout(Dropout& layer, const Tensor& x, Cut cut = Cut::features) {
  if (!layer->drops()) return x;
  if (cut == Cut::features) return modular::detail::drop(*layer, x, slice_index());
  return modular::detail::drop(*layer, x, /*part=*/0, slice_of_positions());
}

/// Attention with dropout over this rank's heads.
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask,
                        double scale, const nn::Dropout& dropout, std::optional<double> softcap = std::nullopt) {
  if (!dropout->drops()) return modular::attention(query, key, value, mask, scale, softcap);
  return modular::detail::attention_dropping(query, key, value, mask, scale, *dropout, softcap, slice_index());
}
/// Attention with a tensor mask and dropout over this rank's heads.
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double scale,
                        const nn::Dropout& dropout, std::optional<double> softcap = std::nullopt) {
  if (!dropout->drops()) return modular::attention(query, key, value, mask, scale, softcap);
  return modular::detail::attention_dropping(query, key, value, mask, scale, *dropout, softcap, slice_index());
}
/// attention_with_biases() with dropout over this rank's heads.
inline Tensor attention_with_biases(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& biases,
                                    double scale, const nn::Dropout& dropout) {
  if (!dropout->drops()) return modular::attention_with_biases(query, key, value, biases, scale);
  return attention(query, key, value, biases, scale, dropout);
}

/// All-gathers a value that is split along its last dimension: every rank gets the full value.
/// - shard [..., features]
/// - returns [..., features]
inline Tensor gather(const Tensor& shard) { return bound.tp ? bound.tp->gather(shard, -1) : shard; }

/// modular::cross_entropy_outputs() of logits that are split by class. Every rank gets the full loss and logits.
inline Outputs cross_entropy_outputs(const Tensor& logits, const Batch& batch,
                                     Tensor (*targets_of)(const Tensor& labels)) {
  Outputs outputs = modular::detail::make_outputs(logits, batch, targets_of, cross_entropy, count_targets);
  if (outputs.logits.defined()) outputs.logits = gather(outputs.logits);
  return outputs;
}

}  // namespace modular::tp
