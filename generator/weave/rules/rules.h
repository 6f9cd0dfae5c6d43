// What the rules of shard types share. Each file of this folder holds the rules of one kind of operation and their
// table; shard_rules.cc joins the tables.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generator/weave/shard_types.h"

namespace modgen {

using RuleTable = std::map<std::string_view, Rule>;

const RuleTable& arithmetic_rules();
const RuleTable& shape_rules();
const RuleTable& cutting_rules();
const RuleTable& matmul_rules();
const RuleTable& layer_rules();
const RuleTable& function_rules();
const RuleTable& head_rules();
const RuleTable& state_space_rules();

/// All of them.
std::vector<const RuleTable*> rule_tables();

inline constexpr const char* kForgottenExit =
    "a sum over tp is missing: mark the layer that made it TP_ROWWISE and call it as a layer";

inline bool is_tensor(const Value& value) { return value.kind == Value::Kind::tensor; }
inline bool is_kind(const Value& value, ShardType::Kind kind) { return is_tensor(value) && value.type.kind == kind; }
inline bool is_split(const Value& value) { return is_kind(value, ShardType::Kind::sharded); }
inline bool is_partial(const Value& value) { return is_kind(value, ShardType::Kind::partial); }
inline bool is_whole(const Value& value) { return is_kind(value, ShardType::Kind::invariant); }
inline bool is_replicated(const Value& value) { return is_kind(value, ShardType::Kind::replicated); }

/// The operation's name for messages: without what tells methods and operators apart.
std::string quoted(const Operation& op);

/// The split dimension counted from the end, where that is known.
std::optional<int64_t> from_end(const Value& value);

/// `dim` of `value` in the same count as its split dimension; nothing where the rank is needed for that and not known.
std::optional<int64_t> same_count(const Value& value, int64_t dim);

/// Whether dimension `dim` of `value`, counted from the end, is known to have size 1.
bool has_one(const Value& value, int64_t dim);

/// The number that operand `i` gives, `fallback` where it is left out; nothing where it is not known.
std::optional<int64_t> number_or(const Operation& op, size_t i, int64_t fallback);

/// Dimension operand `i`, or `fallback`, as the split dimension of the first operand is counted; nothing where it is
/// not known.
std::optional<int64_t> dimension(const Operation& op, size_t i, int64_t fallback);

/// `value` with another type.
Value like(const Value& value, ShardType type);

/// Rejects an operation of `value` that no rule covers.
Value unproven(Operation& op, const Value& value);

bool any_gradient(const Operation& op);

/// What an operation does to sums: linear in its one tensor, a sum of tensors, a product, or none of these.
enum class Algebra { linear, sum, product, non_linear };

/// An operation that works element by element on operands [first, last), broadcasting.
Value elementwise(Operation& op, Algebra algebra, size_t first, size_t last);
inline Value elementwise(Operation& op, Algebra algebra) { return elementwise(op, algebra, 0, op.values.size()); }

/// Applies `algebra` to the first `count` operands alone; the others are known to be settings.
Value elementwise_of_first(Operation& op, Algebra algebra, size_t count);

/// Moves dimension d of the first operand to `to(d)`; the split one with it.
template <class Move>
Value moved(Operation& op, std::optional<int64_t> rank, Move&& to) {
  const Value& x = op.values[0];
  Value result = Value::tensor(kInvariant, x.gradient, rank);
  if (!is_split(x)) return like(result, x.type);
  const std::optional<int64_t> dim = to(x.type.dim);
  if (!dim) return op.message.empty() ? unproven(op, x) : Value::failure();
  return Value::tensor(sharded(*dim, x.type.parts), x.gradient, rank);
}

/// The first operand unchanged, where dimension `dim` of it is not the split one; `what` works along that dimension.
Value full_dimension(Operation& op, std::optional<int64_t> dim, const std::string& what);

/// Only the first operand is a tensor that flows on: `.to(…)`, `.contiguous()`.
Value first_alone(Operation& op);

/// The sizes that operand `first` lists, or that stand one by one from it on.
std::vector<std::pair<const Expr*, Value>> sizes_from(const Operation& op, size_t first);

}  // namespace modgen
