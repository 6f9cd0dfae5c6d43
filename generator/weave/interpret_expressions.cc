// Evaluation of expressions. Rules apply to declarations of libtorch and of the contract, as resolved by Clang; a
// family's own functions are interpreted. Names alone never decide.
#include <algorithm>

#include "generator/weave/interpreter.h"
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

/// Whether the type is a container, which a single number may have been converted to.
bool is_container(std::string_view type) {
  static constexpr std::string_view names[] = {"std::vector<", "std::array<", "std::deque<", "c10::SmallVector<"};
  return std::ranges::any_of(names, [&](std::string_view name) { return type.starts_with(name); });
}

}  // namespace

Value Interpreter::evaluate(const Expr& expr) {
  using Kind = Value::Kind;
  Value value = evaluate_kind(expr);
  if (value.has_failed()) return value;
  if (sequence_) value = take_calls(expr, std::move(value));
  if (value.has_failed()) return value;
  const bool is_made =
      expr.kind != Expr::Kind::local && expr.kind != Expr::Kind::field && expr.kind != Expr::Kind::lambda;
  if (is_made && !is_assignment(expr) && value.kind != Kind::module && may_refer(expr.type)) {
    const bool is_own = expr.callee && expr.callee->home == Callee::Home::family;
    for (const Expr& operand : expr.operands)
      refer_to(operand, expr.type, is_own || expr.kind == Expr::Kind::list || expr.kind == Expr::Kind::construct);
  }
  if (value.kind == Kind::unknown) return value;
  // A value read from an object that is not followed has all positions.
  if (sequence_ && value.kind == Kind::object && value.gradient)
    use_parameters(expr.span, value.parameters, /*is_partial=*/false);
  if (value.kind == Kind::number) value.count = converted(std::move(value.count), expr.type);
  if (!expr.narrowed_to.empty() && value.kind == Kind::number) {
    if (value.count.is_share && expr.narrowed_to != "bool")
      return fail(expr.span, "unproven: a tp-local count that is converted to " + expr.narrowed_to + " may change",
                  "compute it in the constructor, where counts are global");
    value.count.terms.clear();
  }
  // The C++ type may be more specific than the value that was propagated.
  const bool is_tensor = value.kind == Kind::tensor || value.kind == Kind::nothing;
  const bool unlike = expr.type == "at::Tensor" ? !is_tensor && value.kind != Kind::mismatch
                      : is_tensor               ? make_invariant(expr.type, false).kind == Kind::number
                                                : value.kind == Kind::number && is_container(expr.type);
  if (!unlike) return value;
  if (!value.is_invariant()) return unproven(expr, value, "this use");
  Value known = make_invariant(expr.type, true);
  known.is_inside = value.is_inside;
  set_parameters(known, get_parameters(value));
  set_storage(known, value.storage);
  return known;
}

Value Interpreter::evaluate_kind(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::local:
      return evaluate_local(expr);
    case Expr::Kind::global:
      return evaluate_global(expr);
    case Expr::Kind::literal:
      return Value::number(read_literal(expr.name));
    case Expr::Kind::self:
      if (frame_->self) return module_value(*frame_->self);
      if (const std::optional<AccessPath> path = get_access_path(expr)) return read(*path, expr);
      return object_value();
    case Expr::Kind::field:
      return evaluate_field(expr);
    case Expr::Kind::call:
      return evaluate_call(expr);
    case Expr::Kind::method:
      return evaluate_method(expr);
    case Expr::Kind::op:
      return evaluate_operator(expr);
    case Expr::Kind::list:
      return evaluate_list(expr);
    case Expr::Kind::lambda:
      return evaluate_lambda(expr);
    case Expr::Kind::unknown:
      return fail(expr.span, "unproven: no rule for " + expr.name,
                  "write it with expressions that modgen follows (docs/reference/language.md)");
    case Expr::Kind::construct:
    case Expr::Kind::cast:
    case Expr::Kind::thrown:
    case Expr::Kind::other:
      return evaluate_other(expr);
  }
  return {};
}

std::pair<std::vector<const Expr*>, std::vector<Value>> Interpreter::evaluate_operands(const Expr& expr) {
  std::pair<std::vector<const Expr*>, std::vector<Value>> result;
  for (const Expr& operand : expr.operands) {
    result.first.push_back(&operand);
    result.second.push_back(evaluate(operand));
  }
  return result;
}

Value Interpreter::evaluate_operator(const Expr& expr) {
  const Function* own = expr.callee ? functions_.find(*expr.callee) : nullptr;
  if (is_assignment(expr) && !own) return evaluate_assignment(expr);
  if (expr.name == "?:") {
    evaluate_condition(expr.operands[0]);
    Value one = evaluate_conditionally(expr.operands[1]);
    return join_alternatives(expr, std::move(one), evaluate_conditionally(expr.operands[2]));
  }
  const bool is_built_in = !expr.callee;
  if (is_built_in && expr.name == ",") {
    evaluate(expr.operands[0]);
    return evaluate(expr.operands[1]);
  }
  if (is_built_in && (expr.name == "&&" || expr.name == "||")) {
    const auto tested = [](Value value) { return value.kind == Value::Kind::module ? Value::number() : value; };
    const Value one = tested(evaluate(expr.operands[0])), other = tested(evaluate_conditionally(expr.operands[1]));
    return apply_unknown("op " + expr.name, expr, {&expr.operands[0], &expr.operands[1]}, {one, other});
  }
  auto [operands, values] = evaluate_operands(expr);
  for (const Value& value : values)
    if (value.has_failed()) return Value::failure();
  // Whether a holder is empty is the same on every rank.
  if (is_built_in && expr.name == "!" && values[0].kind == Value::Kind::module) return Value::number();
  if (own) {
    close_sums(expr, operands, values);
    const bool of_object = values.size() == own->parameters.size() + 1;
    if (of_object) return call_on_object(*own, operands[0], drop_first(operands), std::move(values), expr);
    return call(*own, nullptr, operands, std::move(values), &expr);
  }
  if (get_home(expr) == Callee::Home::family)
    return fail(expr.span, "unproven: the definition of this operator is not known here", "define it in the spec");
  if (expr.operands.size() == 1 && (expr.name == "*" || expr.name == "&")) {
    const bool takes_address = expr.name == "&" && values[0].kind != Value::Kind::module;
    if (takes_address && values[0].count.is_share) return fail(expr.span, kReferenceToCount, kCopyCount);
    if (const std::optional<AccessPath> path = get_access_path(expr.operands[0]); takes_address && path) {
      write(*path, Value::failure(), expr.span);
      return fail(expr.span, "unproven: a pointer to a variable", "pass it by reference, or return the value");
    }
    // A holder, an optional or an iterator evaluates to the value that it holds.
    if (values[0].kind == Value::Kind::module || values[0].kind == Value::Kind::tensor) return values[0];
    if (!values[0].is_invariant()) return values[0];
    Value held = make_invariant(expr.type, true);
    held.count = values[0].count;
    held.is_inside = values[0].is_inside;
    set_parameters(held, get_parameters(values[0]));
    set_storage(held, values[0].storage);
    return held;
  }
  if (expr.name == "++" || expr.name == "--") {
    if (values[0].kind == Value::Kind::unknown) return values[0];
    if (values[0].count.is_share)
      return fail(expr.span, "unproven: a tp-local count that is counted up or down: the result is not a share",
                  "compute the number in the constructor, where counts are global");
    assign(expr.operands[0], nullptr, Value::number());
    return Value::number();
  }
  if (expr.name == "[]" && values[0].kind == Value::Kind::module && values[0].node->kind == ModuleNode::Kind::list)
    return module_value(*values[0].node->children[0]);
  const std::string name = "op " + expr.name;
  const bool has_rule = is_built_in || get_home(expr) == Callee::Home::torch ||
                        (expr.name == "[]" && get_home(expr) == Callee::Home::standard);
  return apply(name, has_rule ? find_rule(name) : nullptr, expr, std::move(operands), std::move(values));
}

Value Interpreter::evaluate_list(const Expr& expr) {
  if (const std::string why = why_unsupported(expr.type); !why.empty()) return fail(expr.span, why, kUseDefaultCopies);
  Value result;
  if (!expr.members.empty())
    result = empty_object(expr.type);
  else
    result.kind = Value::Kind::tuple;
  for (size_t i = 0; i < expr.operands.size(); ++i) {
    Value value = evaluate(expr.operands[i]);
    if (value.has_failed()) result = Value::failure();
    if (result.has_failed()) continue;
    if (i >= expr.members.size())
      result.elements.push_back(std::move(value));
    else
      result.members[expr.members[i]] =
          expr.type == "modular::Outputs" ? as_output(expr.members[i], expr.operands[i], value) : std::move(value);
  }
  if (expr.type == "modular::Outputs" && expr.operands.empty()) return empty_object(expr.type);
  result.is_built =
      result.kind == Value::Kind::object && is_family_type(family_, expr.type) && !is_config(family_, expr.type);
  return result;
}

Value Interpreter::evaluate_other(const Expr& expr) {
  auto [operands, values] = evaluate_operands(expr);
  for (const Value& value : values)
    if (value.has_failed()) return Value::failure();
  if (expr.kind == Expr::Kind::thrown) return {};
  if (expr.takes_const_away)
    return fail(expr.span, "unproven: a cast that removes const", "declare variables that change without const");
  if (expr.kind == Expr::Kind::cast && sequence_) return convert_number(expr.operands[0], values[0], expr.type);
  if (expr.kind == Expr::Kind::cast) return values[0];
  if (expr.kind == Expr::Kind::construct) {
    if (const std::string why = why_unsupported(expr.type); !why.empty())
      return fail(expr.span, why, kUseDefaultCopies);
    if (values.empty() && expr.name == "at::Tensor") return {};
    if (const Function* constructor = expr.callee ? functions_.find(*expr.callee) : nullptr;
        constructor && !expr.callee->of_module)
      return call_on_object(*constructor, nullptr, operands, std::move(values), expr);
    const bool is_known =
        is_family_type(family_, expr.name) ? is_config(family_, expr.name) : is_value_class(expr.name);
    if (!is_known) return apply_unlisted(expr.name, expr, operands, values);
    if (values.empty()) return empty_object(expr.name);
    if (expr.name.starts_with("std::pair") || expr.name.starts_with("std::tuple")) {
      Value tuple;
      tuple.kind = Value::Kind::tuple;
      tuple.elements = std::move(values);
      return tuple;
    }
  }
  if (std::optional<Value> unknown = meet_unknown(expr, operands, values)) return *unknown;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].is_invariant()) return unproven(expr.operands[i], values[i], "this use");
    if (values[i].kind == Value::Kind::module && values[i].node->holds_parameters())
      return unknown_module(expr.operands[i]);
  }
  const bool gradient =
      std::any_of(values.begin(), values.end(), [](const Value& value) { return value.carries_gradient(); });
  Value result = make_invariant(expr.type, gradient);
  result.is_inside = std::ranges::any_of(values, [](const Value& value) { return find_inside(value) != nullptr; });
  set_parameters(result, get_parameters(values));
  give_storage("", expr, values, result);
  forget_changed(expr, operands, values);
  return result;
}

std::string Interpreter::why_unsupported(std::string_view type) const {
  const Class* owner = class_of_type(family_, type);
  if (!owner || !owner->runs_unseen) return "";
  return "unproven: " + owner->name +
         " or one of its members has a user-defined copy constructor or destructor: their calls are not followed";
}

}  // namespace modgen
