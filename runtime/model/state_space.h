// State space models (Gu & Dao, Mamba; Dao & Gu, Mamba-2): recurrences over a sequence whose coefficients depend on the
// input. Under tensor parallelism each rank computes its own channels or heads.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "runtime/model/cache.h"
#include "runtime/model/context_scan.h"
#include "runtime/model/functions.h"
#include "runtime/model/init.h"

namespace modular {

/// Returns x with zeros where `padding` is 0, because a recurrence would carry the padding's values to later tokens.
/// Returns x unchanged if `padding` is undefined.
/// - x [batch, seq, features]
/// - padding [batch, seq] int64 or bool, or undefined; with a cache, it also covers the tokens seen before
/// - returns [batch, seq, features]
inline Tensor without_padding(const Tensor& x, const Tensor& padding) {
  if (!padding.defined()) return x;
  const int64_t seq = x.size(1);
  return (x * padding.narrow(1, padding.size(1) - seq, seq).unsqueeze(-1)).to(x.scalar_type());
}

/// Depthwise causal convolution: each channel is convolved separately, over a position and those before it. A cache
/// keeps the last positions, which the next forward reads.
/// - x [batch, seq, channels]
/// - weight [channels, 1, kernel]
/// - bias [channels], or undefined
/// - returns [batch, seq, channels]
inline Tensor causal_conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto opt_bias = bias.defined() ? std::optional<Tensor>(bias) : std::nullopt;
  const int64_t seq = x.size(1), before = weight.size(-1) - 1;
  if (bound.context) {
    const std::vector<Tensor> earlier = detail::positions_before(x, before);
    return detail::over_runs(x, [&](int64_t row, const cp::Run& run, size_t index) {
      const Tensor read = at::cat({earlier[index], x.narrow(1, row, run.size)}, 1).transpose(1, 2);
      return at::conv1d(read.to(weight.scalar_type()), weight, opt_bias, /*stride=*/1, /*padding=*/at::IntArrayRef{0},
                        /*dilation=*/1, /*groups=*/weight.size(0))
          .transpose(1, 2)
          .to(x.scalar_type());
    });
  }
  Tensor read = x;
  if (bound.cache) {
    Tensor& kept = bound.cache->next();
    const Tensor added =
        without_padding(x, bound.cache->padding());  // zeros, as if the sequence began after the padding
    read = kept.defined() ? at::cat({kept, added}, 1) : at::constant_pad_nd(added, {0, 0, before, 0});
    kept = read.narrow(1, seq, before).clone();
  }
  const Tensor mixed = at::conv1d(read.transpose(1, 2).to(weight.scalar_type()), weight, opt_bias, /*stride=*/1,
                                  /*padding=*/bound.cache ? 0 : before, /*dilation=*/1, /*groups=*/weight.size(0));
  return mixed.narrow(-1, 0, seq).transpose(1, 2).to(x.scalar_type());
}

/// Root mean square norm of x * silu(gate) over groups of consecutive features. It is computed in float32, rounded to
/// x's type, then multiplied by `weight` (Dao & Gu, Mamba-2).
/// - x, gate [batch, seq, hidden]
/// - weight [hidden]
/// - returns [batch, seq, hidden]
inline Tensor gated_rms_norm(const Tensor& x, const Tensor& gate, const Tensor& weight, int64_t groups, double eps) {
  const Tensor wide = (x.to(at::kFloat) * at::silu(gate.to(at::kFloat))).unflatten(-1, {groups, -1});
  const Tensor normed = wide * at::rsqrt(wide.pow(2).mean(-1, /*keepdim=*/true) + eps);
  return weight * normed.flatten(-2).to(x.scalar_type());
}

namespace plain {
/// exp(sum of `steps` [..., length] over (source, target]) for each target and the sources up to it, else 0: [...,
/// target, source]. It sums over the interval instead of subtracting prefix sums, which would cancel.
inline Tensor decay_between(const Tensor& steps) {
  const int64_t length = steps.size(-1);
  const Tensor reached = at::ones({length, length}, steps.options().dtype(at::kBool)).tril();
  return steps.unsqueeze(-1)
      .masked_fill(reached.tril(-1).logical_not(), 0.0)
      .cumsum(-2)
      .masked_fill(reached.logical_not(), -std::numeric_limits<double>::infinity())
      .exp();
}
}  // namespace plain

namespace detail {
inline Tensor decay_between(const Tensor& steps) {
  return fused.decay_between ? fused.decay_between(steps) : plain::decay_between(steps);
}
}  // namespace detail

namespace detail {

/// state_space_duality() of consecutive positions. `state` [batch, 1, groups, heads of a group, head_dim, state] is the
/// one before them, zeros if it is undefined, and afterwards the one after them; null if neither matters.
inline Tensor duality(const Tensor& x, const Tensor& dt, const Tensor& A, const Tensor& B, const Tensor& C,
                      const Tensor& D, int64_t chunk_size, Tensor* state) {
  const int64_t batch = x.size(0), seq = x.size(1), heads = x.size(2), groups = B.size(2), each = heads / groups;
  const int64_t length = std::min(chunk_size, seq), chunks = (seq + length - 1) / length;
  // Dimensions of einsum: b batch; c and z chunks; l and s positions within a chunk; g groups; h heads of a group;
  // p head_dim; n state.
  const auto chunked = [&](const Tensor& value) {  // [batch, seq, …] as [b, c, l, …]
    std::vector<int64_t> padding(2 * (value.dim() - 1), 0);
    padding.back() = chunks * length - seq;
    return at::constant_pad_nd(value, padding).unflatten(1, {chunks, length});
  };
  const Tensor wide = x.to(at::kFloat), step = dt.to(at::kFloat);
  const Tensor input = chunked(wide * step.unsqueeze(-1)).unflatten(3, {groups, each});
  const Tensor write = chunked(B.to(at::kFloat)), read = chunked(C.to(at::kFloat));
  const Tensor decay = chunked(A.to(at::kFloat) * step).unflatten(3, {groups, each}).permute({0, 3, 4, 1, 2});
  const Tensor since_start = decay.cumsum(-1);  // [b, g, h, c, l]
  const auto by_position = [](const Tensor& factor) { return factor.exp().permute({0, 3, 4, 1, 2}).unsqueeze(-1); };

  const Tensor scores = at::einsum("bclgn,bcsgn->bgcls", {read, write}).unsqueeze(2) * detail::decay_between(decay);
  Tensor output = at::einsum("bghcls,bcsghp->bclghp", {scores, input});
  if (chunks > 1 || state) {
    const Tensor until_end = by_position(since_start.narrow(-1, length - 1, 1) - since_start);
    const Tensor added = at::einsum("bclgn,bclghp->bcghpn", {write, input * until_end});
    // The state before the first chunk counts as one more chunk, so there are chunks + 1 states.
    const Tensor before = state && state->defined() ? *state : at::zeros_like(added.narrow(1, 0, 1));
    const Tensor kept =
        detail::decay_between(at::constant_pad_nd(since_start.select(-1, length - 1), {1, 0}));  // [b, g, h, c, z]
    const Tensor states = at::einsum("bghcz,bzghpn->bcghpn", {kept, at::cat({before, added}, 1)});
    if (state) *state = states.narrow(1, chunks, 1).clone();
    const Tensor at_start = states.narrow(1, 0, chunks);
    output = output + at::einsum("bclgn,bcghpn->bclghp", {read, at_start}) * by_position(since_start);
  }
  return output.reshape({batch, chunks * length, heads, -1}).narrow(1, 0, seq) + D.unsqueeze(-1) * wide;
}

/// state_space_duality() of this rank's positions: each run from a state of zeros, and what the state before it adds.
inline Tensor duality_over_context(const Tensor& x, const Tensor& dt, const Tensor& A, const Tensor& B, const Tensor& C,
                                   const Tensor& D, int64_t chunk_size) {
  const int64_t groups = B.size(2);
  const std::vector<cp::Run> runs = bound.context->runs(x.size(1));
  std::vector<Tensor> outputs, decays;  // decays [batch, seq, groups, heads of a group]: since the start of the run
  std::vector<RunStates> states;
  int64_t row = 0;
  for (const cp::Run& run : runs) {
    const auto of_run = [&](const Tensor& value) { return value.narrow(1, row, run.size); };
    Tensor last;
    outputs.push_back(duality(of_run(x), of_run(dt), A, of_run(B), of_run(C), D, chunk_size, &last));
    decays.push_back((A.to(at::kFloat) * of_run(dt).to(at::kFloat)).cumsum(1).exp().unflatten(2, {groups, -1}));
    states.push_back({last.squeeze(1), decays.back().select(1, run.size - 1).unsqueeze(-1).unsqueeze(-1)});
    row += run.size;
  }
  const std::vector<Tensor> before = states_before(runs, states);
  return over_runs(x, [&](int64_t first, const cp::Run& run, size_t index) {
    const Tensor read = C.narrow(1, first, run.size).to(at::kFloat);
    const Tensor added = at::einsum("blgn,bghpn->blghp", {read, before[index]}) * decays[index].unsqueeze(-1);
    return outputs[index] + added.flatten(2, 3);
  });
}

}  // namespace detail

/// The recurrence of Mamba-2: a head's state [head_dim, state] decays by exp(dt * A) and adds dt * x B. The output
/// reads the state by C and adds D * x. Each group of B and C serves heads / groups heads. It is computed in float32:
/// like attention within chunks of `chunk_size` positions, and by states from chunk to chunk (Dao & Gu, state space
/// duality). A cache keeps the state.
/// - x [batch, seq, heads, head_dim]
/// - dt [batch, seq, heads]: steps, positive
/// - A [heads]: negative
/// - B, C [batch, seq, groups, state]
/// - D [heads]
/// - returns [batch, seq, heads, head_dim] float32
inline Tensor state_space_duality(const Tensor& x, const Tensor& dt, const Tensor& A, const Tensor& B, const Tensor& C,
                                  const Tensor& D, int64_t chunk_size) {
  if (bound.context) return detail::duality_over_context(x, dt, A, B, C, D, chunk_size);
  return detail::duality(x, dt, A, B, C, D, chunk_size, bound.cache ? &bound.cache->next() : nullptr);
}

namespace detail {

/// The states [batch, seq, channels, state] after each position of selective_scan(), whose state before them is
/// `before`; zeros if it is undefined.
inline Tensor scan_states(const Tensor& x, const Tensor& dt, const Tensor& A, const Tensor& B, const Tensor& before) {
  const Tensor step = dt.unsqueeze(-1);
  const auto kept = at::exp(A * step).unbind(1);
  const auto added = (step * B.unsqueeze(2).to(at::kFloat) * x.unsqueeze(-1).to(at::kFloat)).unbind(1);
  Tensor state = before;
  std::vector<Tensor> states;
  for (size_t position = 0; position < added.size(); ++position) {
    state = state.defined() ? kept[position] * state + added[position] : added[position];
    states.push_back(state);
  }
  return at::stack(states, 1);
}

/// scan_states() of this rank's positions.
inline Tensor scan_states_over_context(const Tensor& x, const Tensor& dt, const Tensor& A, const Tensor& B) {
  const std::vector<cp::Run> runs = bound.context->runs(x.size(1));
  std::vector<Tensor> scans, decays;
  std::vector<RunStates> states;
  int64_t row = 0;
  for (const cp::Run& run : runs) {
    const auto of_run = [&](const Tensor& value) { return value.narrow(1, row, run.size); };
    scans.push_back(scan_states(of_run(x), of_run(dt), A, of_run(B), /*before=*/{}));
    decays.push_back(at::exp(A * of_run(dt).to(at::kFloat).cumsum(1).unsqueeze(-1)));
    states.push_back({scans.back().select(1, run.size - 1), decays.back().select(1, run.size - 1)});
    row += run.size;
  }
  const std::vector<Tensor> before = states_before(runs, states);
  return over_runs(x, [&](int64_t, const cp::Run&, size_t index) {
    return scans[index] + decays[index] * before[index].unsqueeze(1);
  });
}

}  // namespace detail

/// The recurrence of Mamba (Gu & Dao): a channel's state [state] decays by exp(dt * A) and adds dt * x B. The output
/// reads the state by C and adds D * x. B and C are shared by all channels. The state is float32 and is rounded to x's
/// type when it is read. A cache keeps the state.
/// - x [batch, seq, channels]
/// - dt [batch, seq, channels]: steps, positive
/// - A [channels, state] float32, negative
/// - B, C [batch, seq, state]
/// - D [channels]
/// - returns [batch, seq, channels]
inline Tensor selective_scan(const Tensor& x, const Tensor& dt, const Tensor& A, const Tensor& B, const Tensor& C,
                             const Tensor& D) {
  Tensor* const cached = bound.cache ? &bound.cache->next() : nullptr;
  const Tensor states = bound.context ? detail::scan_states_over_context(x, dt, A, B)
                                      : detail::scan_states(x, dt, A, B, cached ? *cached : Tensor());
  if (cached) *cached = states.select(1, states.size(1) - 1).clone();
  return at::matmul(states.to(x.scalar_type()), C.unsqueeze(-1)).squeeze(-1) + x * D;
}

namespace init {

/// Initializes the log decay rates of a state space model: the logarithms of 1, 2, … along the last dimension (Gu et
/// al., S4D-real).
/// - parameter [...]
inline void log_rates_(const Tensor& parameter) {
  fill(parameter, [](Tensor& full) { full.copy_(at::arange(1, full.size(-1) + 1, full.options()).log()); });
}

/// Initializes biases such that softplus maps them to log-uniform steps between `low` and `high`, at least `floor` (Gu
/// & Dao).
/// - parameter [...]
inline void step_biases_(const Tensor& parameter, double low, double high, double floor) {
  fill(parameter, [=](Tensor& full) {
    const Tensor step = full.uniform_(std::log(low), std::log(high)).exp().clamp_min(floor);
    full.copy_(step + (-at::expm1(-step)).log());
  });
}

}  // namespace init
}  // namespace modular
