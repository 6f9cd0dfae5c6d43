// What each rule of shard types is about, as calls of libtorch or of the contract with drawn operands: a table for each
// table of rules, with the same keys.
#pragma once

#include <functional>
#include <map>
#include <string_view>

#include "tests/generator/rule_properties/application.h"
#include "tests/generator/rule_properties/drawing.h"

namespace modular {
struct AttentionMask;
}

namespace modgen::rule_properties {

using Draw = std::function<Application(Drawing&)>;
using OperationTable = std::map<std::string_view, Draw>;

const OperationTable& arithmetic_operations();
const OperationTable& shape_operations();
const OperationTable& cutting_operations();
const OperationTable& matmul_operations();
const OperationTable& layer_operations();
const OperationTable& function_operations();
const OperationTable& head_operations();
const OperationTable& state_space_operations();

/// What the contract's functions make masks and positions of.
Operand batch(Drawing& draw);
/// An AttentionMask of padding, and the one that an argument is.
Operand attention_mask(Drawing& draw, int64_t seq);
modular::AttentionMask make_mask(const Concrete& argument);
/// What hides keys: nothing, a tensor of numbers, or an AttentionMask.
enum class Hidden { by_nothing, by_numbers, by_mask };
/// Query, key, value and what hides keys; of heads that are split alike more often than not.
std::vector<Operand> attended(Drawing& draw, Hidden hidden);

/// A layer that drops with kDropped, the same on all simulated ranks and in one process.
Operand dropping_layer();
inline constexpr double kDropped = 0.4;

/// An operation of `operands` that has no other form where it is split.
inline Application application(std::vector<Operand> operands, std::function<Concrete(const Arguments&)> run) {
  return {std::move(operands), [run = std::move(run)](const Arguments& arguments, Call) { return run(arguments); }};
}

/// A function of one tensor, which is `x`.
inline Application of_one(Operand x, at::Tensor (*function)(const at::Tensor&)) {
  return application({std::move(x)}, [function](const Arguments& a) { return function(a[0].tensor); });
}

}  // namespace modgen::rule_properties
