// Rules of the prelude's functions for state space models: channels, heads or groups of heads are independent.
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

/// An operand and the dimension, counted from the end, along which it is split if the first operand is split.
struct Split {
  size_t operand;
  int64_t dim;
};

/// A function whose operands are all split the same way, by `splits`, or all full; each slice is computed
/// independently. `shared` operands are always full.
Value by_slices(Operation& op, const std::vector<Split>& splits, const std::vector<size_t>& shared,
                const std::string& advice) {
  const auto given = [&](size_t i) { return i < op.values.size() && op.values[i].kind != Value::Kind::nothing; };
  const Value x = op.values[0];
  for (const auto& [operand, dim] : splits) {
    if (!given(operand)) continue;
    const Value& value = op.values[operand];
    if (is_partial(value)) return op.reject(quoted(op) + " of a partial sum over tp", kMissingSum);
    if (!is_tensor(value) || is_replicated(value)) return unproven(op, value);
    if (is_split(value) != is_split(x))
      return op.reject(quoted(op) + " of values of which some are split over tp and others are full", advice);
    if (is_split(value) && (from_end(value) != dim || value.type.parts != x.type.parts))
      return op.reject(quoted(op) + " of a value that is " + describe(value), advice);
  }
  for (const size_t i : shared) {
    if (!is_full(op.values[i])) return unproven(op, op.values[i]);
    if (is_split(x)) op.enter(i);
  }
  return is_split(x) ? Value::tensor(x.type, true, x.rank) : Value::tensor(kInvariant, any_gradient(op), x.rank);
}

bool has_local_count(const Operation& op) {
  return std::any_of(op.values.begin(), op.values.end(),
                     [](const Value& value) { return value.kind == Value::Kind::number && value.count.is_share; });
}

/// causal_conv1d(x, weight, bias)
Value causal_conv1d(Operation& op) {
  return by_slices(op, {{0, -1}, {1, -3}, {2, -1}}, {},
                   "split its weight [channels, 1, kernel] and its bias by channel, within the parts of its input: "
                   "TP_SHARD(0, …)");
}

/// gated_rms_norm(x, gate, weight, groups, eps)
Value gated_rms_norm(Operation& op) {
  if (is_tensor(op.values[0]) && op.values[3].count.is_share != is_split(op.values[0]))
    return op.reject("a norm by groups of a value that is " + describe(op.values[0]) +
                         ", with a count of groups that is " + describe(op.values[3]),
                     "split by groups: mark their number TP_LOCAL if and only if the value is split");
  if (is_split(op.values[0]) && !op.values[0].type.parts.empty())
    return op.reject("a norm by groups of a value that is " + describe(op.values[0]) + ": groups may span parts",
                     "split the value into its parts first");
  return by_slices(op, {{0, -1}, {1, -1}, {2, -1}}, {}, "split value, gate and weight (TP_SHARD(0)) the same way");
}

/// state_space_duality(x, dt, A, B, C, D, chunk_size)
Value state_space_duality(Operation& op) {
  if (has_local_count(op)) return op.reject(quoted(op) + " by a tp-local count");
  return by_slices(op, {{0, -2}, {1, -1}, {2, -1}, {3, -2}, {4, -2}, {5, -1}}, {},
                   "split heads and their groups: view both by TP_LOCAL counts");
}

/// selective_scan(x, dt, A, B, C, D)
Value selective_scan(Operation& op) {
  return by_slices(op, {{0, -1}, {1, -1}, {2, -2}, {5, -1}}, {3, 4},
                   "split the channels of the value, its steps, A and D the same way (TP_COLWISE, TP_SHARD(0))");
}

/// without_padding(x, padding): zeroes entire positions.
Value without_padding(Operation& op) {
  const Value& x = op.values[0];
  if (!is_tensor(x)) return unproven(op, x);
  if (!op.values[1].is_invariant() || op.values[1].gradient) return unproven(op, op.values[1]);
  if (is_split(x) && from_end(x) != -1 && !(x.rank && x.type.dim >= 2)) return unproven(op, x);
  Value result = x;
  result.ones.clear();  // the padding may have more rows
  return result;
}

}  // namespace

const RuleTable& state_space_rules() {
  static const RuleTable table = {
      {"causal_conv1d", causal_conv1d},
      {"gated_rms_norm", gated_rms_norm},
      {"state_space_duality", state_space_duality},
      {"selective_scan", selective_scan},
      {"without_padding", without_padding},
  };
  return table;
}

}  // namespace modgen
