// Dropout (Srivastava et al., 2014). Which elements are dropped follows from counters (Salmon et al., Parallel Random
// Numbers: As Easy as 1, 2, 3) and not from the order in which numbers are drawn, so that every mesh, every recomputed
// forward and every resumed run drops the same ones.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "runtime/model/fused.h"
#include "runtime/model/module.h"
#include "runtime/model/parallel.h"

namespace modular {

/// What one call of a dropout layer drops. An element is known by its sample, its column (the last dimension), its row
/// (those between; of attention, the query) and its plane (of attention, the head). It is dropped where its 32-bit word
/// is below p * 2^32. Words are those of Philox4x32-10 with the key and, as counter, (block, row, sample, plane): 64
/// columns take 16 counters, of whose four words the first are those of columns 0 … 15, the second those of 16 … 31,
/// and so on. Rows, planes and samples that are 2^32 apart are dropped alike.
struct DropoutRng {
  Tensor samples;    // [batch] int64, on the values' device: which sample each row of a batch is
  uint64_t key = 0;  // of the seed, the layer, and how many times it ran before in this forward
  double p = 0.0;    // the probability that an element is dropped; the others are divided by 1 - p
  int64_t part = 0;  // of a value whose columns or heads are split over tp: which part this is
};

namespace nn {
class DropoutImpl;
}

namespace dropout {

/// What a model is bound to in training.
class Draws {
 public:
  virtual ~Draws() = default;
  /// What the next call of `layer` in the forward that is running drops.
  virtual DropoutRng draw(const nn::DropoutImpl& layer) = 0;
};

}  // namespace dropout

namespace detail {
inline Tensor drop(const nn::DropoutImpl& layer, const Tensor& x, int64_t part = 0);
}

namespace nn {
/// In the place of libtorch's Dropout one that the runtime can tell what to drop: each element with probability `p`, at
/// least 0 and less than 1; the others are divided by 1 - p. Without a runtime it drops what libtorch draws, in
/// training mode. It is given values [batch, ..., features].
class DropoutImpl : public torch::nn::Module {
 public:
  explicit DropoutImpl(double p = 0.5) : p(p) {
    TORCH_CHECK(p >= 0.0 && p < 1.0, "dropout with probability ", p, ": write at least 0 and less than 1");
  }
  Tensor forward(const Tensor& x) { return drops() ? detail::drop(*this, x) : x; }
  /// Whether a call now drops anything.
  bool drops() const { return p > 0.0 && (bound.dropout || is_training()); }

  double p;
};
TORCH_MODULE(Dropout);
}  // namespace nn

namespace plain {

/// Philox4x32-10: four words for each of the counters, all int64 that hold 32 bits.
inline std::array<Tensor, 4> philox(std::array<Tensor, 4> counter, uint64_t key) {
  constexpr int64_t kWord = 0xffffffff;
  uint32_t low_key = static_cast<uint32_t>(key), high_key = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    // Products wrap to the 64 bits of the unsigned ones.
    const Tensor even = counter[0] * int64_t{0xD2511F53}, odd = counter[2] * int64_t{0xCD9E8D57};
    const auto high = [](const Tensor& product) { return at::bitwise_right_shift(product, 32).bitwise_and(kWord); };
    counter = {high(odd).bitwise_xor(counter[1]).bitwise_xor(static_cast<int64_t>(low_key)), odd.bitwise_and(kWord),
               high(even).bitwise_xor(counter[3]).bitwise_xor(static_cast<int64_t>(high_key)), even.bitwise_and(kWord)};
    low_key += 0x9E3779B9;
    high_key += 0xBB67AE85;
  }
  return counter;
}

/// Words below it are of elements that are dropped.
inline int64_t dropout_threshold(double p) { return std::min(std::llround(p * 4294967296.0), 4294967295LL); }

/// 1 where an element is kept and 0 elsewhere, bool. `first_column` and `first_plane` say where a part begins. One
/// sample is drawn after the other, as words take many times a mask's memory.
/// - returns [batch, planes, rows, columns]
inline Tensor kept(const DropoutRng& draw, int64_t planes, int64_t rows, int64_t columns, int64_t first_plane,
                   int64_t first_column) {
  const auto options = draw.samples.options();
  const int64_t batch = draw.samples.size(0), first_group = first_column / 64;
  const int64_t groups = (first_column + columns + 63) / 64 - first_group;
  const std::array<int64_t, 3> shape = {planes, rows, 16 * groups};
  const Tensor column = at::arange(16 * first_group, 16 * (first_group + groups), options).view({1, 1, -1});
  const Tensor row = at::arange(rows, options).view({1, -1, 1});
  const Tensor plane = at::arange(first_plane, first_plane + planes, options).view({-1, 1, 1});
  const Tensor mask = at::empty({batch, planes, rows, columns}, options.dtype(at::kBool));
  for (int64_t i = 0; i < batch; ++i) {
    const Tensor sample = draw.samples[i].bitwise_and(0xffffffff);
    const auto words =
        philox({column.expand(shape), row.expand(shape), sample.expand(shape), plane.expand(shape)}, draw.key);
    // [..., groups, word, lane]: the columns in order
    const Tensor in_order = at::stack({words[0].unflatten(2, {groups, 16}), words[1].unflatten(2, {groups, 16}),
                                       words[2].unflatten(2, {groups, 16}), words[3].unflatten(2, {groups, 16})},
                                      3)
                                .flatten(2);
    mask[i].copy_(in_order.narrow(2, first_column - 64 * first_group, columns).ge(dropout_threshold(draw.p)));
  }
  return mask;
}

/// How many rows of x belong to each sample.
inline int64_t dropout_rows(const Tensor& x, const DropoutRng& draw) {
  const int64_t batch = draw.samples.size(0);
  TORCH_CHECK(x.dim() >= 2 && batch > 0 && x.size(0) % batch == 0, "dropout of values of shape ", x.sizes(),
              " in a batch of ", batch,
              " samples: the first dimension must be the batch's, so that it is known what is "
              "whose");
  return x.size(-1) == 0 ? 0 : x.numel() / (batch * x.size(-1));
}

inline Tensor dropout(const Tensor& x, const DropoutRng& draw) {
  const int64_t columns = x.size(-1);
  const Tensor mask = kept(draw, 1, dropout_rows(x, draw), columns, 0, draw.part * columns);
  return x.masked_fill(mask.view(x.sizes()).logical_not(), 0) / (1.0 - draw.p);
}

/// Of the shares [batch, heads, seq, keys] that attention gives to keys.
inline Tensor dropout_of_weights(const Tensor& shares, const DropoutRng& draw) {
  const int64_t heads = shares.size(1);
  const Tensor mask = kept(draw, heads, shares.size(2), shares.size(3), draw.part * heads, 0);
  return shares.masked_fill(mask.logical_not(), 0) / (1.0 - draw.p);
}

}  // namespace plain

namespace detail {
/// What a layer that drops makes of x, or of this part of its columns.
inline Tensor drop(const nn::DropoutImpl& layer, const Tensor& x, int64_t part) {
  if (!bound.dropout) return at::dropout(x, layer.p, /*train=*/true);
  DropoutRng drawn = bound.dropout->draw(layer);
  drawn.part = part;
  return fused.dropout ? fused.dropout(x, drawn) : plain::dropout(x, drawn);
}
}  // namespace detail

}  // namespace modular
