// Mixtures of experts (Shazeer et al.; Fedus et al., Switch Transformer).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/config.h"
#include "runtime/model/functions.h"
#include "runtime/model/parallel.h"
#include "runtime/model/stored_as.h"

namespace modular {

/// For a config's finish(): throws ConfigError unless the number of experts per token is between 1 and `num_experts`.
inline void check_experts(int64_t num_experts_per_tok, int64_t num_experts) {
  if (num_experts_per_tok < 1 || num_experts_per_tok > num_experts)
    throw ConfigError("num_experts_per_tok is " + std::to_string(num_experts_per_tok) + ": write 1 to " +
                      std::to_string(num_experts) + ", the number of experts");
}

/// For a config's stored_as(): checkpoint files hold the experts of each layer separately, under the names of their
/// projections.
inline std::vector<StoredAs> stored_expert_by_expert() {
  return {
      {"model.layers.*.mlp.experts.gate_up_proj",
       {"model.layers.*.mlp.experts.#.gate_proj.weight", "model.layers.*.mlp.experts.#.up_proj.weight"}},
      {"model.layers.*.mlp.experts.down_proj", {"model.layers.*.mlp.experts.#.down_proj.weight"}},
  };
}

namespace routing {

/// Runtime interface that balances experts in training.
class Balance {
 public:
  virtual ~Balance() = default;
  /// Implements balance_experts().
  virtual Tensor add(const Tensor& weights, const Tensor& logits, const Tensor& scores, const Tensor& chosen,
                     const Tensor& bias) = 0;
};

}  // namespace routing

/// Returns `weights`, the router's weights of the chosen experts. In training, the backward of the result adds the
/// gradients of the losses that balance experts (Shazeer et al.; Fedus et al., Switch Transformer) and keep logits
/// small (Zoph et al., ST-MoE). If `bias` is given, it is updated from step to step to even out the choice (Wang et
/// al., Auxiliary-Loss-Free Load Balancing). Rows are the positions of a batch, sequence after sequence.
/// - weights [rows, k]
/// - logits [rows, experts]
/// - scores [rows, experts], derived from the logits and not negative; the loss normalizes each row to sum 1
/// - chosen [rows, k] int64: expert indices
/// - bias [experts], a buffer that is added to the scores when experts are chosen
/// - returns [rows, k]
inline Tensor balance_experts(const Tensor& weights, const Tensor& logits, const Tensor& scores, const Tensor& chosen,
                              const Tensor& bias = {}) {
  return bound.routing ? bound.routing->add(weights, logits, scores, chosen, bias) : weights;
}

namespace routing {

/// Applies each expert to its rows, which are sorted by expert, with separate GEMMs per expert. The host waits for the
/// number of rows of each expert.
/// - rows [pairs, hidden]
/// - expert_of_pair [pairs] int64, in any order: only the count of each expert is read
/// - returns [pairs, hidden]
inline Tensor one_by_one(std::string_view activation, const Tensor& rows, const Tensor& expert_of_pair,
                         const Tensor& gate_up, const Tensor& down) {
  const Tensor counted = expert_of_pair.bincount({}, gate_up.size(0)).cpu();
  const c10::IntArrayRef counts(counted.data_ptr<int64_t>(), static_cast<size_t>(gate_up.size(0)));
  // Split into all slices at once: the gradient of a single slice would be as large as the full tensor.
  const auto expert_rows = rows.split_with_sizes(counts), gate_ups = gate_up.unbind(), downs = down.unbind();
  std::vector<Tensor> results;
  for (size_t expert = 0; expert < counts.size(); ++expert) {
    if (counts[expert] == 0) continue;
    const auto halves = at::linear(expert_rows[expert], gate_ups[expert]).chunk(2, -1);
    results.push_back(at::linear(gated_activation(activation, halves[0], halves[1]), downs[expert]));
  }
  return at::cat(results);
}

/// one_by_one() with grouped GEMMs over all experts, which read the row ranges of the experts on the device: the host
/// does not wait.
inline Tensor grouped(std::string_view activation, const Tensor& rows, const Tensor& expert_of_pair,
                      const Tensor& gate_up, const Tensor& down) {
  const Tensor numbers = at::arange(gate_up.size(0), expert_of_pair.options()).unsqueeze(-1);
  const Tensor ends = numbers.eq(expert_of_pair).sum(-1).cumsum(0, at::kInt);
  const auto halves = at::_grouped_mm(rows, gate_up.transpose(1, 2), ends).chunk(2, -1);
  return at::_grouped_mm(gated_activation(activation, halves[0], halves[1]), down.transpose(1, 2), ends);
}

/// Whether libtorch has a fast kernel for the GEMMs of grouped(); without one, grouped() is not faster. The kernel
/// reads 16 bytes at a time.
inline bool can_group(const Tensor& rows, const Tensor& down) {
  return rows.is_cuda() && rows.scalar_type() == at::kBFloat16 && down.size(1) % 8 == 0 && down.size(2) % 8 == 0;
}

/// Multiplies rows, which are sorted by expert, by the matrices of their experts.
/// - rows [pairs, in]
/// - expert_of_row [pairs] int64
/// - weight [experts, in, out]
/// - returns [pairs, out]
inline Tensor multiply(const Tensor& rows, const Tensor& expert_of_row, const Tensor& weight) {
  if (can_group(rows, weight)) {
    const Tensor numbers = at::arange(weight.size(0), expert_of_row.options()).unsqueeze(-1);
    return at::_grouped_mm(rows, weight, numbers.eq(expert_of_row).sum(-1).cumsum(0, at::kInt));
  }
  const Tensor counted = expert_of_row.bincount({}, weight.size(0)).cpu();
  const c10::IntArrayRef counts(counted.data_ptr<int64_t>(), static_cast<size_t>(weight.size(0)));
  const auto expert_rows = rows.split_with_sizes(counts), weights = weight.unbind();
  std::vector<Tensor> results;
  for (size_t expert = 0; expert < counts.size(); ++expert)
    if (counts[expert] > 0) results.push_back(expert_rows[expert].matmul(weights[expert]));
  return at::cat(results);
}

}  // namespace routing

/// Sends each row through the gated feed-forward networks of its chosen experts and sums their results by their weights
/// (Shazeer et al.). `activation` is a name that activation() accepts.
/// - x [rows, hidden]
/// - gate_up [experts, 2 * intermediate, hidden]: each expert's gate projection, then its up projection
/// - down [experts, hidden, intermediate]
/// - chosen [rows, k] int64: expert indices
/// - weights [rows, k]
/// - returns [rows, hidden]
inline Tensor mix_experts(std::string_view activation, const Tensor& x, const Tensor& gate_up, const Tensor& down,
                          const Tensor& chosen, const Tensor& weights) {
  const Tensor expert_of_pair = chosen.flatten();
  const Tensor order = expert_of_pair.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  const Tensor row_of_pair = order.floor_divide(chosen.size(1));
  const auto run = routing::can_group(x, down) ? &routing::grouped : &routing::one_by_one;
  const Tensor results = run(activation, x.index_select(0, row_of_pair), expert_of_pair, gate_up, down);
  const Tensor weighted = results * weights.flatten().index_select(0, order).unsqueeze(-1);
  return at::zeros_like(x).index_add(0, row_of_pair, weighted.to(x.scalar_type()));
}

/// mix_experts() for experts with biases and clamped features (OpenAI, gpt-oss): gate is at most `limit`, up is within
/// ±limit, and the down projection reads (up + 1) * gate * sigmoid(alpha * gate). Weights are stored as [in, out]. The
/// biases of the down projections are not added.
/// - x [rows, hidden]
/// - gate_up [experts, hidden, 2 * intermediate]: gate and up features by turns
/// - gate_up_bias [experts, 2 * intermediate]
/// - down [experts, intermediate, hidden]
/// - chosen [rows, k] int64: expert indices
/// - weights [rows, k]
/// - returns [rows, hidden]
inline Tensor mix_clamped_experts(const Tensor& x, const Tensor& gate_up, const Tensor& gate_up_bias,
                                  const Tensor& down, const Tensor& chosen, const Tensor& weights, double alpha,
                                  double limit) {
  const Tensor order = chosen.flatten().argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  const Tensor row_of_pair = order.floor_divide(chosen.size(1)), expert = chosen.flatten().index_select(0, order);
  const Tensor features = routing::multiply(x.index_select(0, row_of_pair), expert, gate_up);
  const auto parts = (features + gate_up_bias.index_select(0, expert)).view({-1, down.size(1), 2}).unbind(-1);
  const Tensor gate = parts[0].clamp_max(limit), up = parts[1].clamp(-limit, limit);
  const Tensor results = routing::multiply((up + 1) * (gate * (gate * alpha).sigmoid()), expert, down);
  const Tensor weighted = results * weights.flatten().index_select(0, order).unsqueeze(-1);
  return at::zeros_like(x).index_add(0, row_of_pair, weighted.to(x.scalar_type()));
}

}  // namespace modular
