// Values with a dimension of keys in the reading of positions: each later forward of a generation has more keys, and
// what a mask says of those that come after a query decides whether a cache can replace them.
#include <array>
#include <set>

#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

/// Whether `expr` is the lowest number of a type, or minus infinity.
bool is_lowest(const Expr* expr) {
  bool is_negative = false;
  while (expr->operands.size() == 1 && (expr->kind == Expr::Kind::construct || expr->name == "-")) {
    is_negative ^= expr->kind == Expr::Kind::op;
    expr = expr->operands.data();
  }
  if (expr->kind != Expr::Kind::call || !expr->callee) return false;
  const std::string_view name = expr->callee->name;
  const bool is_limit = name.starts_with("std::numeric_limits<");
  if (is_negative) return is_limit && (name.ends_with("::infinity") || name.ends_with("::max"));
  return name == "modular::plain::lowest" || name == "modular::lowest" || (is_limit && name.ends_with("::lowest"));
}

LaterKeys opposite(LaterKeys keys) {
  return keys == LaterKeys::no ? LaterKeys::yes : keys == LaterKeys::yes ? LaterKeys::no : LaterKeys::any;
}

/// The operation without the prefix of methods and operators.
std::string_view plain_name(std::string_view operation) {
  if (operation.starts_with("op ")) return operation.substr(3);
  return operation.substr(operation.starts_with(".") ? 1 : 0);
}

bool is_keys(const Count& size) {
  const Count::Term* product = size.product();
  return product && std::ranges::count(product->fields, "#keys") > 0;
}

}  // namespace

LaterKeys find_later_keys(const Operation& op, const std::vector<Value>& given) {
  static const std::set<std::string_view> negations = {"logical_not", "bitwise_not", "!", "~"},
                                          conjunctions = {"logical_and", "bitwise_and", "&", "&&"},
                                          disjunctions = {"logical_or", "bitwise_or", "|", "||"};
  const auto any_is = [&](LaterKeys keys) {
    return std::ranges::any_of(given, [&](const Value& value) { return value.later_keys == keys; });
  };
  if (op.axis != Axis::positions || given.empty()) return LaterKeys::any;
  if (op.name == "visible_keys") return hides_later_keys(given[0]) ? LaterKeys::no : LaterKeys::any;
  if (op.name == "alibi_mask") return LaterKeys::lowest;
  const std::string_view name = plain_name(op.name);
  if (negations.contains(name)) return opposite(given[0].later_keys);
  if (conjunctions.contains(name)) return any_is(LaterKeys::no) ? LaterKeys::no : LaterKeys::any;
  if (disjunctions.contains(name)) return any_is(LaterKeys::yes) ? LaterKeys::yes : LaterKeys::any;
  if (name == "+" || (name == "add" && given.size() == 2))
    return any_is(LaterKeys::lowest) ? LaterKeys::lowest : LaterKeys::any;
  if (name == "masked_fill" && given.size() == 3) {
    const bool is_filled = given[1].later_keys == LaterKeys::yes || given[0].later_keys == LaterKeys::lowest;
    return is_filled && is_lowest(op.operands[2]) ? LaterKeys::lowest : LaterKeys::any;
  }
  if (op.name == "where" && given.size() == 3) {
    const size_t chosen = given[0].later_keys == LaterKeys::no ? 2 : 1;
    const bool is_chosen = given[0].later_keys != LaterKeys::any;
    return is_chosen && is_lowest(op.operands[chosen]) ? LaterKeys::lowest : LaterKeys::any;
  }
  if (name == "to" || name == "type_as") {  // of integers and flags, nothing is the lowest
    const bool is_float = name == "to" ? given.size() > 1 && keeps_fractions(op, 1) : given[1].gradient;
    return is_float && given[0].later_keys == LaterKeys::lowest ? LaterKeys::lowest : LaterKeys::any;
  }
  return is_view_or_query(op.name) || op.name == ".clone" ? given[0].later_keys : LaterKeys::any;
}

bool hides_later_keys(const Value& mask) {
  if (is_tensor(mask)) return mask.later_keys == LaterKeys::no || mask.later_keys == LaterKeys::lowest;
  const auto causal = mask.members.find("causal");
  return causal != mask.members.end() && causal->second.count.literal() == 1;
}

bool covers_keys(const Value& value) {
  for (int64_t i = 0; value.kind == Value::Kind::tensor && i < value.sizes.rank(); ++i)
    if (is_keys(value.sizes[i])) return true;
  return (value.kind == Value::Kind::number && is_keys(value.count)) ||
         std::ranges::any_of(value.elements, covers_keys);
}

bool keeps_keys(std::string_view operation, const Value& result) {
  // Along a dimension, or by the place in it.
  static constexpr std::array along = {"flip",    "roll",        "softmax", "log_softmax", "tril",   "triu",
                                       "scatter", "scatter_add", "cumprod", "cummax",      "cummin", "logcumsumexp"};
  if (std::ranges::find(along, plain_name(operation)) != along.end()) return false;
  switch (result.kind) {
    case Value::Kind::tensor:
      return covers_keys(result);
    case Value::Kind::tuple:
    case Value::Kind::list:
      return operation != ".sizes" && std::ranges::all_of(result.elements, covers_keys);
    case Value::Kind::number:
      return is_view_or_query(operation) && operation != ".numel" && !covers_keys(result);
    default:
      return is_view_or_query(operation);
  }
}

}  // namespace modgen
