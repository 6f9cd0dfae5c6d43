// Rules of the prelude's functions, and of woven calls that a spec writes explicitly.
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

// ---- Norms ----

/// A norm of operand 0 over its last `dims` dimensions, with parameters in operands [first, last).
Value norm(Operation& op, size_t first, size_t last, int64_t dims = 1) {
  const Value& x = op.values[0];
  if (!is_tensor(x)) return unproven(op, x);
  if (is_partial(x)) return op.reject("a norm of a partial sum over tp", kMissingSum);
  last = std::min(last, op.values.size());
  for (size_t i = first; i < last; ++i)
    if (op.values[i].rank.value_or(dims) > dims) return unproven(op, op.values[i]);
  if (is_split(x)) {
    if (!from_end(x)) return unproven(op, x);
    if (*from_end(x) >= -dims)
      return op.reject(std::string("a norm over ") +
                       (dims == 1 ? "the last dimension, which" : "dimensions of which one") +
                       " is split over tp: each rank sees only its slice");
    for (size_t i = first; i < last; ++i) {
      if (is_split(op.values[i]) || is_partial(op.values[i]))
        return op.reject("a norm whose weight is " + describe(op.values[i]));
      op.enter(i);  // every rank's shard contributes to its gradient
    }
    Value result = x;
    if (last > first) std::erase(result.ones, -1);  // a weight may have more elements than a dimension of size 1
    for (size_t i = first; i < last; ++i) result.gradient = result.gradient || op.values[i].gradient;
    return result;
  }
  Operation operands = op;
  operands.values = {x};
  for (size_t i = first; i < last; ++i) operands.values.push_back(op.values[i]);
  Value result = elementwise(operands, Algebra::non_linear);
  if (!operands.message.empty()) return op.reject(operands.message, operands.advice);
  for (const size_t i : operands.entered) op.entered.push_back(i == 0 ? 0 : first + i - 1);
  result.rank = x.rank;
  result.last_size = x.last_size;
  return result;
}

/// rms_norm(x, weight, eps): along a split dimension if the weight is split the same way.
Value rms_norm(Operation& op) {
  const Value &x = op.values[0], &weight = op.values[1];
  if (!is_split(x) || from_end(x) != -1 || !is_tensor(weight)) return norm(op, 1, 2);
  if (!is_split(weight) || from_end(weight) != -1 || weight.type.parts != x.type.parts)
    return op.reject("a norm over the last dimension, which is split over tp, whose weight is " + describe(weight),
                     "split the weight of a norm over all heads the same way, TP_SHARD(0), in a separate class if the "
                     "norm's class is "
                     "also used for full values");
  op.call = Call::rms_norm;
  Value result = x;
  result.gradient = true;
  return result;
}

/// torch::layer_norm(x, shape, weight, bias, eps)
Value layer_norm(Operation& op) {
  const Value* shape = op.values.size() > 1 ? &op.values[1] : nullptr;
  if (!shape || shape->kind != Value::Kind::tuple) return unproven(op, op.values[0]);
  return norm(op, 2, 4, static_cast<int64_t>(shape->elements.size()));
}

// ---- Attention ----

Value activation(Operation& op) { return elementwise(op, Algebra::non_linear, 1, op.values.size()); }

Value soft_cap(Operation& op) { return elementwise_of_first(op, Algebra::non_linear, 1); }

Value rotary(Operation& op) {
  const Value& x = op.values[0];
  if (is_partial(x)) return op.reject("rotary positions of a partial sum over tp", kMissingSum);
  if (!is_tensor(x)) return unproven(op, x);
  for (size_t i = 1; i < op.values.size(); ++i) {
    if (op.values[i].kind == Value::Kind::number && !op.values[i].count.is_share) continue;
    if (!is_full(op.values[i])) return unproven(op, op.values[i]);
    if (op.values[i].gradient && !is_full(x))
      return op.reject("rotary tables with a gradient meet a value that is " + describe(x));
  }
  if (is_split(x) && !(x.rank == 4 && x.type.dim == 1))
    return op.reject(
        "rotary positions of a value that is " + describe(x),
        "it takes [batch, heads, seq, head_dim] split by heads: view with the number of heads, then transpose(1, 2)");
  Value result = x;
  result.gradient = any_gradient(op);
  std::erase_if(result.ones, [](int64_t one) { return one != -3; });  // the tables may have more rows and positions
  return result;
}

/// Whether operand `i` is omitted or the number zero.
bool is_zero(const Operation& op, size_t i) {
  if (i >= op.values.size()) return true;
  const std::string& text = op.operands[i]->name;
  return op.operands[i]->kind == Expr::Kind::literal && text.find_first_not_of("0.") == std::string::npos;
}

Value attention(Operation& op) {
  const Value* split = nullptr;
  for (size_t i = 0; i < 3; ++i) {
    const Value& value = op.values[i];
    if (is_partial(value)) return op.reject("attention of a partial sum over tp", kMissingSum);
    if (!is_tensor(value)) return unproven(op, value);
    if (!is_split(value)) continue;
    if (!(value.rank == 4 && value.type.dim == 1 && value.type.parts.empty()))
      return op.reject("attention over a value that is " + describe(value),
                       "it takes [batch, heads, seq, head_dim] split by heads");
    split = &value;
  }
  if (op.values.size() > 3 && op.values[3].kind == Value::Kind::object && !op.values[3].is_invariant())
    return op.reject("attention with a mask that is " + describe(op.values[3]),
                     "the mask of keys has to be full: it is the same for every head");
  if (op.values.size() > 3 && is_tensor(op.values[3])) {
    const Value& mask = op.values[3];
    if (split && is_split(mask)) {
      if (!(mask.rank == 4 && mask.type.dim == 1 && mask.type.parts.empty()))
        return op.reject("attention with a mask that is " + describe(mask),
                         "it takes [batch, heads, seq, seq] split by heads, or a mask that is the same for every head");
    } else if (split && is_full(mask)) {
      const bool same_for_all = (mask.rank && *mask.rank < 3) || has_one(mask, -3);
      if (!same_for_all)
        return op.reject(
            "unproven: attention over heads that are split over tp, with a mask that is not known to be "
            "the same for every head",
            "construct the mask with size 1 in the dimension of heads: [batch, 1, seq, seq]");
      op.enter(3);
    } else if (!is_full(mask)) {
      return unproven(op, mask);
    }
  }
  bool drops = false;  // whether a Dropout layer is passed
  for (size_t i = 3; i < op.values.size(); ++i) {
    if (i == 3 && is_tensor(op.values[i])) continue;
    if (op.values[i].kind == Value::Kind::module) {
      drops = true;
      continue;
    }
    if (op.values[i].kind == Value::Kind::nothing || is_full(op.values[i]) ||
        (op.values[i].kind == Value::Kind::number && !op.values[i].count.is_share) ||
        op.values[i].kind == Value::Kind::object)
      continue;
    return op.values[i].count.is_share ? op.reject(
                                             "attention with a tp-local count as a number: the result differs from "
                                             "a single process")
                                       : unproven(op, op.values[i]);
  }
  const bool merged = quoted(op) == "attention";  // the prelude's returns [batch, seq, heads * head_dim]
  if (quoted(op) == "scaled_dot_product_attention" && !is_zero(op, 4))
    return op.reject("libtorch's attention with dropout, which also drops in evaluation and differs between meshes",
                     "pass 0.0, or use attention(query, key, value, mask, scale, dropout) with an nn::Dropout");
  if (!split) {
    Value result = elementwise_of_first(op, Algebra::non_linear, 3);
    if (!is_tensor(result)) return result;
    if (is_replicated(result) && op.values.size() > 3) op.enter(3);
    result.gradient = any_gradient(op);
    result.last_size.clear();
    if (merged) result.rank = 3, result.ones.clear();
    return result;
  }
  for (size_t i = 0; i < 3; ++i)
    if (!is_split(op.values[i]))
      return op.reject(
          "attention over heads that are split over tp and others that are not",
          "mark the layers that compute query, key and value the same way (TP_COLWISE), and their numbers of heads "
          "TP_LOCAL");
  if (drops) op.call = Call::attention;
  return Value::tensor(sharded(merged ? 2 : 1), true, merged ? 3 : 4);
}

/// Functions that build an AttentionMask from the batch.
Value attention_mask(Operation& op) {
  for (const Value& value : op.values)
    if (!value.is_invariant()) return unproven(op, value);
  return make_invariant("modular::AttentionMask", false);
}

/// whole_mask(): the mask of a sequence that context-parallel ranks do not divide.
Value whole_mask(Operation& op) {
  Value mask = attention_mask(op);
  mask.members["undivided"] = Value::number(literal_count(1));
  return mask;
}

/// visible_keys(mask, seq, device): [batch or 1, 1, seq, keys]; key_mask(batch): [batch, 1, 1, keys].
Value visible_keys(Operation& op) {
  for (const Value& value : op.values)
    if (!value.is_invariant()) return unproven(op, value);
  Value visible = Value::tensor(kInvariant, false, 4);
  visible.ones = {-3};
  return visible;
}

Value rotary_tables(Operation& op) {
  Value tables = make_invariant("std::pair<at::Tensor, at::Tensor>", false);
  for (const Value& value : op.values)
    if (!value.is_invariant()) return unproven(op, value);
  for (Value& table : tables.elements) table.rank = 3, table.gradient = any_gradient(op);
  return tables;
}

// ---- Mixtures of experts ----

/// Experts' results for the rows in operand `rows`, if these and the router's `choices` and weights are full.
Value mixed(Operation& op, size_t rows, size_t choices) {
  for (const size_t i : {rows, choices, choices + 1}) {
    if (is_partial(op.values[i])) return op.reject("experts of a partial sum over tp", kMissingSum);
    if (!is_full(op.values[i]))
      return op.reject("experts with a value that is " + describe(op.values[i]),
                       "the rows and the router's choices for them have to be full");
  }
  Value result = Value::tensor(kInvariant, any_gradient(op), op.values[rows].rank);
  result.last_size = op.values[rows].last_size;
  return result;
}

/// mix_experts(activation, x, gate_up, down, chosen, weights)
Value mix_experts(Operation& op) {
  const Value &gate_up = op.values[2], &down = op.values[3];
  Value result = mixed(op, 1, 4);
  if (result.kind == Value::Kind::failed || (is_full(gate_up) && is_full(down))) return result;
  const bool in_halves = is_split(gate_up) && from_end(gate_up) == -2 && gate_up.type.parts.size() == 2 &&
                         gate_up.type.parts[0] == gate_up.type.parts[1];
  if (!in_halves || !is_split(down) || from_end(down) != -1 || !down.type.parts.empty())
    return op.reject("experts whose gate and up are " + describe(gate_up) + ", and whose down is " + describe(down),
                     "split each expert's inner features: gate and up by TP_SHARD(1, intermediate_size, "
                     "intermediate_size), down by TP_SHARD(2); or leave both full");
  op.enter(1), op.enter(5);
  op.call = Call::sum;
  return result;
}

/// mix_clamped_experts(x, gate_up, gate_up_bias, down, chosen, weights, alpha, limit)
Value mix_clamped_experts(Operation& op) {
  const Value &gate_up = op.values[1], &bias = op.values[2], &down = op.values[3];
  Value result = mixed(op, 0, 4);
  if (result.kind == Value::Kind::failed || (is_full(gate_up) && is_full(bias) && is_full(down))) return result;
  const auto is_split_at = [](const Value& weight, int64_t dim) {
    return is_split(weight) && from_end(weight) == dim && weight.type.parts.empty();
  };
  if (!is_split_at(gate_up, -1) || !is_split_at(bias, -1) || !is_split_at(down, -2))
    return op.reject("experts whose gate and up are " + describe(gate_up) + ", with biases that are " + describe(bias) +
                         ", and whose down is " + describe(down),
                     "split each expert's inner features: gate and up by TP_SHARD(2), their biases and down by "
                     "TP_SHARD(1); or leave all full");
  op.enter(0), op.enter(5);
  op.call = Call::sum;
  return result;
}

// ---- Losses and helpers ----

/// A loss over full logits, or over logits that are split by class, for which `call` replaces the operation.
Value loss_over(Operation& op, const Value& logits, Call call) {
  if (is_partial(logits)) return op.reject("a loss of a partial sum over tp", kMissingSum);
  if (!is_tensor(logits) || is_replicated(logits)) return unproven(op, logits);
  if (is_split(logits)) {
    if (from_end(logits) != -1 || !logits.type.parts.empty())
      return op.reject("a loss over logits that are " + describe(logits));
    op.call = call;
  }
  return Value::tensor(kInvariant, logits.gradient, 0);
}

Value cross_entropy(Operation& op) {
  const Value &logits = op.values[0], &targets = op.values[1];
  if (is_tensor(logits) && !is_partial(logits) && !is_full(targets)) return unproven(op, targets);
  return loss_over(op, logits, Call::cross_entropy);
}

/// cross_entropy_outputs(logits, batch, targets_of): every rank gets the full loss and the full logits.
Value cross_entropy_outputs(Operation& op) {
  for (const size_t i : {1, 2})
    if (!op.values[i].is_invariant()) return unproven(op, op.values[i]);
  return loss_over(op, op.values[0], Call::cross_entropy_outputs);
}

/// sampled_cross_entropy(hidden, weight, bias, targets, temperature): if the rows are split, the ranks look up the
/// sampled rows, and every rank computes the full loss.
Value sampled_cross_entropy(Operation& op) {
  const Value &hidden = op.values[0], &weight = op.values[1], &bias = op.values[2];
  if (is_partial(hidden)) return op.reject("a loss of a partial sum over tp", kMissingSum);
  for (const size_t i : {0, 3})
    if (!is_full(op.values[i])) return unproven(op, op.values[i]);
  const auto is_by_row = [](const Value& table, int64_t row) {
    return is_split(table) && from_end(table) == row && table.type.parts.empty();
  };
  const bool has_bias = bias.kind != Value::Kind::nothing;
  if (is_by_row(weight, -2) && (!has_bias || is_by_row(bias, -1)))
    op.call = Call::sampled_cross_entropy;
  else if (!is_full(weight) || (has_bias && !is_full(bias)))
    return op.reject("a loss over a sample of classes whose weight is " + describe(weight) + ", and whose bias is " +
                         (has_bias ? describe(bias) : "undefined"),
                     "pass the weight and bias of a TP_VOCAB layer, or of a layer without an annotation");
  return Value::tensor(kInvariant, any_gradient(op), 0);
}

/// Functions of the batch alone, with a known number of dimensions.
template <int64_t kRank>
Value from_batch(Operation& op) {
  for (const Value& value : op.values)
    if (!value.is_invariant()) return unproven(op, value);
  return Value::tensor(kInvariant, false, kRank);
}

/// interpolated_positions(positions, rows, columns): both [1, 1 + positions, hidden].
Value interpolated_positions(Operation& op) {
  for (const Value& value : op.values)
    if (!value.is_invariant()) return unproven(op, value);
  Value result = Value::tensor(kInvariant, any_gradient(op), 3);
  result.ones = {-3};
  result.last_size = op.values[0].last_size;
  return result;
}

Value scalar_tensor(Operation& op) {
  if (op.values[0].count.is_share) return op.reject("a tensor of a tp-local count: it differs from a single process");
  return Value::tensor(kInvariant, false, 0);
}

// ---- The woven calls ----

Value tp_enter(Operation& op) {
  if (!is_full(op.values[0])) return op.reject("tp::enter of a value that is " + describe(op.values[0]));
  return like(op.values[0], kReplicated);
}

Value tp_gather(Operation& op) {
  const Value& x = op.values[0];
  if (!is_split(x) || from_end(x) != -1 || !x.type.parts.empty())
    return op.reject("tp::gather of a value that is " + describe(x),
                     "it takes a value that is split along its last dimension");
  return like(x, kInvariant);
}

}  // namespace

const RuleTable& function_rules() {
  static const RuleTable table = {
      {"rms_norm", rms_norm},
      {"layer_norm", layer_norm},
      {"activation", activation},
      {"gated_activation", activation},
      {"soft_cap", soft_cap},
      {"rotary", rotary},
      {"rotary_adjacent", rotary},
      {"rotary_tables", rotary_tables},
      {"causal_mask", attention_mask},
      {"bidirectional_mask", attention_mask},
      {"whole_mask", whole_mask},
      {"visible_keys", visible_keys},
      {"key_mask", visible_keys},
      {"key_distances", from_batch<2>},
      {"position_ids", from_batch<2>},
      {"counted_position_ids", from_batch<2>},
      {"next_tokens", from_batch<2>},
      {"previous_tokens", from_batch<2>},
      {"count_targets", from_batch<0>},
      {"attention", attention},
      {"scaled_dot_product_attention", attention},
      {"cross_entropy", cross_entropy},
      {"cross_entropy_outputs", cross_entropy_outputs},
      {"sampled_cross_entropy", sampled_cross_entropy},
      {"scalar_tensor", scalar_tensor},
      {"tp::enter", tp_enter},
      {"tp::gather", tp_gather},
      {"interpolated_positions", interpolated_positions},
      {"mix_experts", mix_experts},
      {"mix_clamped_experts", mix_clamped_experts},
  };
  return table;
}

}  // namespace modgen
