// Shared by the sources of the reading of sequence parallelism (sequence.h): shares among the operands of an operation,
// and what becomes of them.
#pragma once

#include <algorithm>

#include "generator/weave/interpreter.h"
#include "generator/weave/rules/rules.h"

namespace modgen {

inline bool is_share(const Value& value) { return is_split(value) && !value.is_gathered; }
inline bool is_fraction(std::string_view type) { return type == "double" || type == "float"; }
inline bool is_gathered(const Value& value) { return is_split(value) && value.is_gathered; }

/// A part of an operand for which something holds; `expr` is null if it is not written as an expression of its own.
struct OperandPart {
  const Expr* expr = nullptr;
  Value* value = nullptr;
};

/// Adds the parts of `value`, which `expr` gives, for which `matches` holds.
void collect_parts(const Expr* expr, Value& value, bool (*matches)(const Value&), std::vector<OperandPart>& found);
std::vector<OperandPart> collect_parts(const std::vector<const Expr*>& operands, std::vector<Value>& values,
                                       bool (*matches)(const Value&));
bool any_part(const std::vector<OperandPart>& parts, bool (*matches)(const Value&));

/// The dimension of `x` that has all positions of `share`; empty if none is known to, or several have.
std::optional<int64_t> find_positions(const Value& x, const Value& share);
/// A call on dimension `dim` of a value of `rank` dimensions.
SequenceCall call_on(SequenceCall::Kind kind, int64_t dim, std::optional<int64_t> rank);
inline SequenceCall call_on(SequenceCall::Kind kind, const Value& share) {
  return call_on(kind, share.type.dim, share.rank);
}
/// The value that all ranks' shares make up; rows are then in the order of ranks.
Value whole_of(const Value& share);
/// A rank's share along dimension `dim`.
Value share_of(const Value& whole, int64_t dim);

/// Calls `change` for `value` and its parts.
template <class Change>
void change_parts(Value& value, Change&& change) {
  change(value);
  for (Value& element : value.elements) change_parts(element, change);
  for (auto& [name, member] : value.members) change_parts(member, change);
}

}  // namespace modgen
