// Shared declarations of the shard-type rules. Each file in this folder defines the rules of one kind of operation and
// their table; shard_rules.cc combines the tables. elementwise.cc holds helpers and has no table.
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

/// All rule tables.
std::vector<const RuleTable*> rule_tables();

inline constexpr const char* kMissingSum =
    "a sum over tp is missing: mark the layer that computes it TP_ROWWISE and call it as a layer, or a raw parameter "
    "TP_REDUCE";

inline constexpr const char* kUseRules =
    "apply it to full values, or write it with operations that have a rule (docs/reference/language.md)";

inline bool is_tensor(const Value& value) { return value.kind == Value::Kind::tensor; }
inline bool is_kind(const Value& value, ShardType::Kind kind) { return is_tensor(value) && value.type.kind == kind; }
inline bool is_split(const Value& value) { return is_kind(value, ShardType::Kind::sharded); }
inline bool is_partial(const Value& value) { return is_kind(value, ShardType::Kind::partial); }
inline bool is_full(const Value& value) { return is_kind(value, ShardType::Kind::invariant); }
inline bool is_replicated(const Value& value) { return is_kind(value, ShardType::Kind::replicated); }

/// The operation's name for messages, without the prefix of methods and operators.
std::string quoted(const Operation& op);

/// The split dimension counted from the end, if that is known.
std::optional<int64_t> from_end(const Value& value);

/// `dim` of `value`, counted from the same side as its split dimension; empty if that needs the rank and it is unknown.
std::optional<int64_t> same_count(const Value& value, int64_t dim);

/// Whether dimension `dim` of `value`, counted from the end, is known to have size 1.
bool has_one(const Value& value, int64_t dim);

/// The number that operand `i` gives, or `fallback` if it is omitted; empty if it is not known.
std::optional<int64_t> number_or(const Operation& op, size_t i, int64_t fallback);

/// The dimension that operand `i` gives, or `fallback`, counted from the same side as the first operand's split
/// dimension; empty if it is not known.
std::optional<int64_t> dimension(const Operation& op, size_t i, int64_t fallback);

/// Whether operand `i` of a conversion names no type, or is known not to name an integer type.
bool keeps_fractions(const Operation& op, size_t i);

/// Returns `value` with another shard type.
Value like(const Value& value, ShardType type);

/// Whether `other` is split like `x`, and known to have as many elements along that dimension.
bool is_as_long(const Value& x, const Value& other);

/// Rejects an operation on `value` that no rule covers.
Value unproven(Operation& op, const Value& value);

bool any_gradient(const Operation& op);

/// How an operation acts on sums: linear in its only tensor, a sum of tensors, a product, or none of these.
enum class Algebra { linear, sum, product, non_linear };

/// The rule of an elementwise operation on operands [first, last), with broadcasting.
Value elementwise(Operation& op, Algebra algebra, size_t first, size_t last);
inline Value elementwise(Operation& op, Algebra algebra) { return elementwise(op, algebra, 0, op.values.size()); }

/// Applies `algebra` to the first `count` operands only; the others are options.
Value elementwise_of_first(Operation& op, Algebra algebra, size_t count);

/// The first operand with each dimension d moved to `to(d)`, including the split one.
template <class Move>
Value moved(Operation& op, std::optional<int64_t> rank, Move&& to) {
  const Value& x = op.values[0];
  Value result = Value::tensor(kInvariant, x.gradient, rank);
  if (!is_split(x)) return like(result, x.type);
  const std::optional<int64_t> dim = to(x.type.dim);
  if (!dim) return op.message.empty() ? unproven(op, x) : Value::failure();
  return Value::tensor(sharded(*dim, x.type.parts), x.gradient, rank);
}

/// The first operand without its known sizes, for an operation `what` along dimension `dim`. Rejects it if that
/// dimension is split.
Value full_dimension(Operation& op, std::optional<int64_t> dim, const std::string& what);

/// The first operand, unchanged, for operations such as `.to(…)` and `.contiguous()`; other operands are options.
Value first_alone(Operation& op);

/// The sizes in the list operand `first`, or in the separate operands from `first` on.
std::vector<std::pair<const Expr*, Value>> sizes_from(const Operation& op, size_t first);

/// Sets the sizes of a result that follow from those of the operands `given`.
void give_sizes(const Operation& op, const std::vector<Value>& given, Value& result);

/// Sets the shape of the result of an operation without a rule, if it is an operand's.
void give_shape(const Operation& op, const std::vector<Value>& given, Value& result);

/// Whether the result of an operation on `given` hides later keys, in the reading of positions.
LaterKeys find_later_keys(const Operation& op, const std::vector<Value>& given);

/// Whether a mask, an AttentionMask or a tensor, hides the keys after each query.
bool hides_later_keys(const Value& mask);

/// Whether a tensor, or a list of tensors or numbers, has a dimension of all positions that the batch's attention_mask
/// covers.
bool covers_keys(const Value& value);

/// Whether an operation of libtorch on a value that covers keys gives each key, or the key's column, a result of its
/// own, so that later forwards, which have more keys, do not change it.
bool keeps_keys(std::string_view operation, const Value& result);

/// The product of all sizes before the split part of `x`; empty if one of them is not known.
std::optional<Count> leading_size(const Value& x);

/// Whether the result of an operation, named as in the rule table, aliases no other tensor and is not saved for
/// backward. If not, it may alias every operand.
bool allocates(std::string_view operation);

/// Whether an operation reads no values of its operand: it returns a view or a property.
bool is_view_or_query(std::string_view operation);

/// Whether the result of `expr`, a call or operator without a rule, depends on nothing but its operands.
bool is_known_function(const Expr& expr);

/// The same for a layer without a rule, named as in the rule table: "Conv1d layer".
bool is_known_layer(std::string_view name);

/// Whether objects of that library class that are made from equal operands are equal.
bool is_value_class(std::string_view type);

/// Whether an operation, named as in the rule table, consumes random numbers.
bool is_random(std::string_view operation);

}  // namespace modgen
