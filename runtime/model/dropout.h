// Dropout (Srivastava et al., 2014). The dropped elements depend on counters (Salmon et al., Parallel Random Numbers:
// As Easy as 1, 2, 3) and not on the order of RNG calls, so that every mesh, every recomputed forward and every resumed
// run drops the same elements.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/model/cp.h"
#include "runtime/model/fused.h"
#include "runtime/model/module.h"
#include "runtime/model/parallel.h"

namespace modular {

/// RNG state of one call of a dropout layer. An element is identified by its sample, its column (the last dimension),
/// its row (the dimensions between; in attention, the query) and its plane (in attention, the head). It is dropped if
/// its 32-bit word is below p * 2^32. The words are those of Philox4x32-10 with this key and the counter (block, row,
/// sample, plane). 64 columns take 16 counters: the first of their four words belong to columns 0 … 15, the second to
/// 16 … 31, and so on. Rows, planes and samples that are 2^32 apart get the same mask.
struct DropoutRng {
  Tensor samples;         // [batch] int64, on the values' device: sample index of each row of the batch
  uint64_t key = 0;       // from the seed, the layer, and the number of its earlier calls in this forward
  double p = 0.0;         // dropout probability; kept elements are divided by 1 - p
  int64_t part = 0;       // index of this slice if columns or heads are split over tp
  int64_t first_row = 0;  // of this slice of a sample, if rows are divided over ranks
};

namespace nn {
class DropoutImpl;
}

namespace dropout {

/// Runtime interface that supplies a model's dropout RNG in training.
class Draws {
 public:
  virtual ~Draws() = default;
  /// RNG state of the next call of `layer` in the current forward.
  virtual DropoutRng draw(const nn::DropoutImpl& layer) = 0;
};

}  // namespace dropout

namespace detail {
inline Tensor drop(const nn::DropoutImpl& layer, const Tensor& x, int64_t part = 0);
}

namespace nn {
/// Replaces libtorch's Dropout with a layer whose mask the runtime can choose. It drops each element with probability
/// `p`, 0 <= p < 1, and divides the others by 1 - p. Without a runtime it uses libtorch's RNG, in training mode. Its
/// input is [batch, ..., features].
class DropoutImpl : public torch::nn::Module {
 public:
  explicit DropoutImpl(double p = 0.5) : p(p) {
    TORCH_CHECK(p >= 0.0 && p < 1.0, "dropout with probability ", p, ": write at least 0 and less than 1");
  }
  Tensor forward(const Tensor& x) { return drops() ? detail::drop(*this, x) : x; }
  /// Whether a call would drop anything now.
  bool drops() const { return p > 0.0 && (bound.dropout || is_training()); }

  double p;
};
TORCH_MODULE(Dropout);
}  // namespace nn

namespace plain {

/// Philox4x32-10: four words per counter. All tensors are int64 that hold 32-bit words.
inline std::array<Tensor, 4> philox(std::array<Tensor, 4> counter, uint64_t key) {
  constexpr int64_t kWord = 0xffffffff;
  uint32_t low_key = static_cast<uint32_t>(key), high_key = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    // The signed 64-bit multiplication wraps to the same bits as an unsigned one.
    const Tensor even = counter[0] * int64_t{0xD2511F53}, odd = counter[2] * int64_t{0xCD9E8D57};
    const auto high = [](const Tensor& product) { return at::bitwise_right_shift(product, 32).bitwise_and(kWord); };
    counter = {high(odd).bitwise_xor(counter[1]).bitwise_xor(static_cast<int64_t>(low_key)), odd.bitwise_and(kWord),
               high(even).bitwise_xor(counter[3]).bitwise_xor(static_cast<int64_t>(high_key)), even.bitwise_and(kWord)};
    low_key += 0x9E3779B9;
    high_key += 0xBB67AE85;
  }
  return counter;
}

/// Elements whose word is below this threshold are dropped.
inline int64_t dropout_threshold(double p) { return std::min(std::llround(p * 4294967296.0), 4294967295LL); }

/// Mask of kept elements: true where an element is kept. `first_column` and `first_plane` are the offsets of a slice.
/// Samples are generated one at a time because the words take many times the mask's memory.
/// - returns [batch, planes, rows, columns]
inline Tensor kept(const DropoutRng& rng, int64_t planes, int64_t rows, int64_t columns, int64_t first_plane,
                   int64_t first_column) {
  const auto options = rng.samples.options();
  const int64_t batch = rng.samples.size(0), first_group = first_column / 64;
  const int64_t groups = (first_column + columns + 63) / 64 - first_group;
  const std::array<int64_t, 3> shape = {planes, rows, 16 * groups};
  const Tensor column = at::arange(16 * first_group, 16 * (first_group + groups), options).view({1, 1, -1});
  const Tensor row = at::arange(rng.first_row, rng.first_row + rows, options).view({1, -1, 1});
  const Tensor plane = at::arange(first_plane, first_plane + planes, options).view({-1, 1, 1});
  const Tensor mask = at::empty({batch, planes, rows, columns}, options.dtype(at::kBool));
  for (int64_t i = 0; i < batch; ++i) {
    const Tensor sample = rng.samples[i].bitwise_and(0xffffffff);
    const auto words =
        philox({column.expand(shape), row.expand(shape), sample.expand(shape), plane.expand(shape)}, rng.key);
    // [..., groups, word, lane]: flattens to the columns in order
    const Tensor in_order = at::stack({words[0].unflatten(2, {groups, 16}), words[1].unflatten(2, {groups, 16}),
                                       words[2].unflatten(2, {groups, 16}), words[3].unflatten(2, {groups, 16})},
                                      3)
                                .flatten(2);
    mask[i].copy_(in_order.narrow(2, first_column - 64 * first_group, columns).ge(dropout_threshold(rng.p)));
  }
  return mask;
}

/// The number of rows of x per sample.
inline int64_t dropout_rows(const Tensor& x, const DropoutRng& rng) {
  const int64_t batch = rng.samples.size(0);
  TORCH_CHECK(x.dim() >= 2 && batch > 0 && x.size(0) % batch == 0, "dropout of values of shape ", x.sizes(),
              " in a batch of ", batch, " samples: the first dimension must be a multiple of the batch size");
  return x.size(-1) == 0 ? 0 : x.numel() / (batch * x.size(-1));
}

inline Tensor dropout(const Tensor& x, const DropoutRng& rng) {
  const int64_t columns = x.size(-1);
  const Tensor mask = kept(rng, 1, dropout_rows(x, rng), columns, 0, rng.part * columns);
  return x.masked_fill(mask.view(x.sizes()).logical_not(), 0) / (1.0 - rng.p);
}

/// Dropout of attention weights [batch, heads, seq, keys].
inline Tensor dropout_of_weights(const Tensor& weights, const DropoutRng& rng) {
  const int64_t heads = weights.size(1);
  const Tensor mask = kept(rng, heads, weights.size(2), weights.size(3), rng.part * heads, 0);
  return weights.masked_fill(mask.logical_not(), 0) / (1.0 - rng.p);
}

}  // namespace plain

namespace detail {

/// A tp rank's slice of the rows of each sample; slices are equally long.
struct RowSlice {
  int64_t index = 0, slices = 1;
};

/// Applies dropout to x [batch, ..., features]: the slice rng.part of the columns and a slice of each sample's rows,
/// which are the positions of this rank.
inline Tensor drop_rows(const Tensor& x, DropoutRng rng, RowSlice slice) {
  const auto apply = [&](const Tensor& some) {
    return fused.dropout ? fused.dropout(some, rng) : plain::dropout(some, rng);
  };
  const int64_t rows = plain::dropout_rows(x, rng), first = slice.index * rows;
  rng.first_row = first;
  // A pooled value has one row, of which every cp rank has the full value.
  if (!bound.context || (rows == 1 && slice.slices == 1)) return apply(x);
  const std::vector<cp::Run> runs = cp::find_runs(slice.slices * rows, first, rows);
  const Tensor by_row = x.reshape({rng.samples.size(0), rows, x.size(-1)});
  std::vector<Tensor> dropped;
  int64_t row = 0;
  for (const cp::Run& run : runs) {
    rng.first_row = run.begin;
    dropped.push_back(apply(by_row.narrow(1, row, run.size)));
    row += run.size;
  }
  return at::cat(dropped, 1).view_as(x);
}

/// Applies an active dropout layer to x, of which this rank has the slice `part` of the columns and `rows` of the rows.
inline Tensor drop(const nn::DropoutImpl& layer, const Tensor& x, int64_t part, RowSlice rows) {
  if (!bound.dropout) return at::dropout(x, layer.p, /*train=*/true);
  DropoutRng rng = bound.dropout->draw(layer);
  rng.part = part;
  return drop_rows(x, std::move(rng), rows);
}
inline Tensor drop(const nn::DropoutImpl& layer, const Tensor& x, int64_t part) {
  return drop(layer, x, part, RowSlice());
}

}  // namespace detail

}  // namespace modular
