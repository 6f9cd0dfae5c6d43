// Rules for the readings other than tp, in which values are split by the rows of the batch or by positions.
#pragma once

#include <map>
#include <string_view>

#include "generator/weave/rules/rules.h"

namespace modgen {

/// A rule that replaces the one of the tp axis, or for a function of the contract the shapes of its operands and its
/// result.
struct ReadingRule {
  Rule rule = nullptr;
  std::string_view shapes = {};
  // Whether it looks along the sequence. With context parallelism it takes a value for this rank's positions.
  bool looks_along = false;
};

/// Rules by name: free functions of libtorch by their name, methods of tensors with a leading dot, functions of the
/// contract with their namespace ("modular::dp::gather"), operators with "op ", layers by their class.
using ReadingRules = std::map<std::string_view, ReadingRule>;

const ReadingRules& operation_readings();
const ReadingRules& contract_readings();

/// The rule of a function of the contract with the shapes of its operands and its result, one letter per dimension, as
/// in "bhsf,bsf,bsf->bhsf". `b` are the rows of the batch; `s` positions that the function may have only some of; `t`
/// positions of which a forward needs all, which context-parallel ranks may divide; `n` the rows of all positions,
/// sequence after sequence. Any other letter is a dimension that is not split, such as `w`: all positions, needed
/// in full by every context-parallel rank. "*" is an operand that is the same for all rows and positions, "?" one that
/// is not a tensor, or a batch. The result may be
/// "+", a sum over rows or positions; Outputs have the shape "="; "~" marks a result that has size 1 instead of `b`,
/// and an operand that may be undefined.
Value by_shapes(Operation& op, std::string_view shapes);

/// Whether operand `i` may be undefined, by the shapes of a function of the contract.
bool may_be_undefined(std::string_view shapes, size_t i);

/// The first number in `value`, or `value` itself, of which each rank has a share; null if there is none.
const Value* find_share(const Value& value);
inline bool has_share(const Value& value) { return find_share(value); }

/// Outputs of which no member is set.
Value empty_outputs();

}  // namespace modgen
