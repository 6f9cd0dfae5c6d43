// Rules of arithmetic and elementwise functions, on tensors and on numbers.
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

// ---- Tensors ----

Value linear_map(Operation& op) { return elementwise(op, Algebra::linear); }
Value reduce_sum(Operation& op) { return elementwise(op, Algebra::sum); }
Value product_value(Operation& op) { return elementwise(op, Algebra::product); }
Value non_linear(Operation& op) { return elementwise(op, Algebra::non_linear); }

/// A quotient: a partial sum may be the dividend but not the divisor. A rounded quotient is not linear.
Value quotient_value(Operation& op) {
  if (op.values.size() > 2) return non_linear(op);
  if (is_partial(op.values.back())) return op.reject("division by a partial sum over tp", kMissingSum);
  return product_value(op);
}

/// A function of the first operand's elements; the others are options.
Value function_of_first(Operation& op) { return elementwise_of_first(op, Algebra::non_linear, 1); }

/// x.to(type), x.to(other), x.type_as(other): allowed for partial sums if fractions are not truncated.
Value converted(Operation& op) {
  for (size_t i = 1; is_partial(op.values[0]) && i < op.values.size(); ++i)
    if (!keeps_fractions(op, i))
      return op.reject(quoted(op) + " of a partial sum over tp, to a type that is not known to be a floating type",
                       kMissingSum);
  return first_alone(op);
}

/// Comparisons, through which no gradient flows.
Value comparison(Operation& op) {
  Value result = elementwise(op, Algebra::non_linear);
  result.gradient = false;
  return result;
}

Value detached(Operation& op) {
  Value result = first_alone(op);
  result.gradient = false;
  if (is_replicated(result)) result.type = kInvariant;
  return result;
}

/// A new tensor with the shape and split of another: `torch::zeros_like`.
Value filled_like(Operation& op) {
  Value result = first_alone(op);
  if (is_partial(result)) return op.reject(quoted(op) + " of a partial sum over tp", kMissingSum);
  result.gradient = false;
  if (is_replicated(result)) result.type = kInvariant;
  return result;
}

// ---- Numbers ----

constexpr const char* kMixed = "a tp-local count is combined with a global number";
constexpr const char* kInConstructor = "compute it in the constructor, where counts are global";

Value multiply_numbers(Operation& op) {
  Count product = literal_count(1);
  for (const Value& value : op.values) {
    if (value.kind != Value::Kind::number && !value.is_invariant()) return unproven(op, value);
    if (value.count.is_share && product.is_share) return op.reject("a product of two tp-local counts");
    product = product_of(product, value.count);
  }
  return Value::number(std::move(product));
}

/// A share divided by a literal is a share if the quotient is exact.
Value number_quotient(Operation& op) {
  Count quotient = quotient_of(op.values[0].count, op.values[1].count);
  const bool is_mixed = op.values[0].count.is_share != op.values[1].count.is_share;
  if (!is_mixed || (op.values[0].count.is_share && quotient.is_known())) return Value::number(std::move(quotient));
  return op.reject("unproven: a quotient of a tp-local count and a count that is not split",
                   "divide counts in the constructor, where they are global");
}

/// The remainder of two tp-local counts is the tp-local remainder.
Value number_remainder(Operation& op) {
  if (op.values[0].count.is_share == op.values[1].count.is_share) return Value::number(op.values[0].count.is_share);
  return op.reject("unproven: a remainder of a tp-local count and a count that is not split", kInConstructor);
}

Value number_comparison(Operation& op) {
  if (op.values.size() == 2 && op.values[0].count.is_share != op.values[1].count.is_share)
    return op.reject(kMixed, kInConstructor);
  return Value::number();
}

Value number_sum(Operation& op) {
  const bool subtracts = quoted(op) == "-";
  if (op.values.size() == 1) {
    Count none = literal_count(0);
    none.is_share = op.values[0].count.is_share;
    return Value::number(subtracts ? sum_of(none, op.values[0].count, true) : op.values[0].count);
  }
  if (op.values[0].count.is_share != op.values[1].count.is_share) return op.reject(kMixed, kInConstructor);
  return Value::number(sum_of(op.values[0].count, op.values[1].count, subtracts));
}

// ---- Operators of both ----

bool has_tensor(const Operation& op) {
  return std::any_of(op.values.begin(), op.values.end(),
                     [](const Value& value) { return is_tensor(value) || value.kind == Value::Kind::nothing; });
}

Value op_plus(Operation& op) {
  return has_tensor(op) ? (op.values.size() == 1 ? linear_map(op) : reduce_sum(op)) : number_sum(op);
}
Value op_times(Operation& op) { return has_tensor(op) ? product_value(op) : multiply_numbers(op); }
Value op_divide(Operation& op) { return has_tensor(op) ? quotient_value(op) : number_quotient(op); }
Value op_remainder(Operation& op) { return has_tensor(op) ? non_linear(op) : number_remainder(op); }
Value op_compare(Operation& op) { return has_tensor(op) ? comparison(op) : number_comparison(op); }

}  // namespace

const RuleTable& arithmetic_rules() {
  static const RuleTable table = [] {
    RuleTable rules = {
        {"op +", op_plus},          {"op -", op_plus},       {"op *", op_times},           {"op /", op_divide},
        {"op %", op_remainder},     {"op ==", op_compare},   {"op !=", op_compare},        {"op <", op_compare},
        {"op >", op_compare},       {"op <=", op_compare},   {"op >=", op_compare},        {"add", reduce_sum},
        {".add", reduce_sum},       {"sub", reduce_sum},     {".sub", reduce_sum},         {"mul", product_value},
        {".mul", product_value},    {"div", quotient_value}, {".div", quotient_value},     {"neg", linear_map},
        {".neg", linear_map},       {".to", converted},      {".contiguous", first_alone}, {".clone", first_alone},
        {".type_as", converted},    {".detach", detached},   {"zeros_like", filled_like},  {"ones_like", filled_like},
        {"full_like", filled_like},
    };
    for (const char* name : {".masked_fill", "where", ".where", "maximum", "minimum", ".maximum", ".minimum", ".pow",
                             "pow", ".clamp", "clamp", ".clamp_min", ".clamp_max"})
      rules[name] = non_linear;
    for (const char* name :
         {"silu",        "gelu", "relu",       "sigmoid", "tanh",      "exp",         "log",  "softplus",
          "log_sigmoid", "sqrt", "rsqrt",      "square",  "abs",       "cos",         "sin",  "erf",
          "hardtanh",    "elu",  "leaky_relu", "mish",    "hardswish", "hardsigmoid", "selu", "celu",
          "relu6",       "exp2", "expm1",      "log1p",   "floor",     "round",       "sign"})
      rules[name] = function_of_first;
    for (const char* name :
         {".silu", ".gelu", ".relu", ".sigmoid",    ".tanh", ".exp",   ".log",   ".sqrt",  ".rsqrt", ".square", ".abs",
          ".cos",  ".sin",  ".erf",  ".reciprocal", ".exp2", ".expm1", ".log1p", ".floor", ".round", ".sign"})
      rules[name] = function_of_first;
    for (const char* name : {".ge", ".gt", ".le", ".lt", ".eq", ".ne", ".logical_and", ".logical_or", ".logical_not",
                             "logical_and", "logical_or", "logical_not", ".isnan", ".isinf"})
      rules[name] = comparison;
    return rules;
  }();
  return table;
}

}  // namespace modgen
