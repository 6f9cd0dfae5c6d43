// Rules of the prelude's functions with one number per head: ALiBi slopes, attention sinks.
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

/// Whether `value` has one number per local head: [heads], split.
bool is_split_by_heads(const Value& value) { return is_split(value) && value.rank == 1 && value.type.parts.empty(); }

/// alibi_slopes(heads, device): slopes of the local heads if the count is tp-local.
Value alibi_slopes(Operation& op) {
  const Value heads = op.values[0];
  if (heads.kind != Value::Kind::number) return unproven(op, heads);
  if (!heads.count.is_share) return Value::tensor(kInvariant, false, 1);
  op.call = Call::alibi_slopes;
  return Value::tensor(sharded(0), false, 1);
}

/// alibi_mask(batch, slopes, type): [batch or 1, heads, seq, keys].
Value alibi_mask(Operation& op) {
  const Value& slopes = op.values[1];
  for (const size_t i : {size_t{0}, size_t{2}})
    if (!op.values[i].is_invariant()) return unproven(op, op.values[i]);
  if (is_full(slopes)) return Value::tensor(kInvariant, slopes.gradient, 4);
  if (!is_split_by_heads(slopes)) return unproven(op, slopes);
  return Value::tensor(sharded(1), slopes.gradient, 4);
}

/// Applies the rule of attention to the first `count` operands.
Value attention(Operation& op, size_t count) {
  Operation first = op;
  first.name = "attention";
  first.values.resize(count), first.operands.resize(count);
  const Value result = apply_rule(first, find_rule(first.name));
  if (!first.message.empty()) return op.reject(first.message, first.advice);
  op.entered = first.entered;
  op.call = first.call;
  return result;
}

/// attention_with_biases(query, key, value, biases, scale, dropout)
Value attention_with_biases(Operation& op) { return attention(op, op.values.size()); }

/// attention_with_sinks(query, key, value, mask, scale, sinks)
Value attention_with_sinks(Operation& op) {
  Value result = attention(op, 5);
  if (result.kind == Value::Kind::failed) return result;
  const Value &sinks = op.values.back(), &query = op.values[0];
  if (!is_tensor(sinks) || is_partial(sinks) || is_replicated(sinks)) return unproven(op, sinks);
  if (is_split(query) ? !is_split_by_heads(sinks) : is_split(sinks))
    return op.reject("attention over heads that are " + describe(query) + ", with sinks that are " + describe(sinks),
                     "split the sinks by heads if and only if query, key and value are: TP_SHARD(0)");
  if (is_replicated(result)) op.enter(op.values.size() - 1);
  result.gradient = result.gradient || sinks.gradient;
  return result;
}

}  // namespace

const RuleTable& head_rules() {
  static const RuleTable table = {
      {"alibi_slopes", alibi_slopes},
      {"alibi_mask", alibi_mask},
      {"attention_with_biases", attention_with_biases},
      {"attention_with_sinks", attention_with_sinks},
  };
  return table;
}

}  // namespace modgen
