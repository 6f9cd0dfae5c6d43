// The operations of the shard-type rules, as calls of libtorch or of the contract with sampled operands: one table per
// rule table, with the same keys.
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

using SampleOperation = std::function<Application(Sampler&)>;
using OperationTable = std::map<std::string_view, SampleOperation>;

const OperationTable& arithmetic_operations();
const OperationTable& shape_operations();
const OperationTable& cutting_operations();
const OperationTable& matmul_operations();
const OperationTable& layer_operations();
const OperationTable& function_operations();
const OperationTable& head_operations();
const OperationTable& state_space_operations();

/// A batch, from which the contract's functions compute masks and positions.
Operand batch(Sampler& sampler);
/// An AttentionMask operand with padding, and the mask of such an argument.
Operand attention_mask(Sampler& sampler, int64_t seq);
modular::AttentionMask make_mask(const Concrete& argument);
/// How keys are masked: not at all, by a tensor of numbers, or by an AttentionMask.
enum class Hidden { by_nothing, by_numbers, by_mask };
/// Query, key, value and mask, with heads that are split the same way more often than not.
std::vector<Operand> attended(Sampler& sampler, Hidden hidden);

/// A Dropout layer with probability kDropped, with the same mask on all simulated ranks and on a single process.
Operand dropping_layer();
inline constexpr double kDropped = 0.4;

/// An operation on `operands` that is not replaced by another call when it is split.
inline Application application(std::vector<Operand> operands, std::function<Concrete(const Arguments&)> run) {
  return {std::move(operands), [run = std::move(run)](const Arguments& arguments, Call) { return run(arguments); }};
}

/// A function of the single tensor `x`.
inline Application of_one(Operand x, at::Tensor (*function)(const at::Tensor&)) {
  return application({std::move(x)}, [function](const Arguments& a) { return function(a[0].tensor); });
}

}  // namespace modgen::rule_properties
