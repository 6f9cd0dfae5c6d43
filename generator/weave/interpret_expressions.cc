// What expressions do: operations by the table of rules, calls, layers, assignments.
#include <algorithm>
#include <charconv>
#include <set>

#include "generator/weave/interpreter.h"
#include "generator/weave/partition.h"

namespace modgen {
namespace {

Value literal(const Expr& expr) {
  Value value = Value::number();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(expr.name.data(), expr.name.data() + expr.name.size(), number);
  if (error != std::errc() || end != expr.name.data() + expr.name.size()) return value;
  value.known = Value::small(number);
  value.factors.emplace();
  if (number != 1) value.factors->push_back(expr.name);
  return value;
}

/// The rule for a layer of libtorch or of the contract.
std::string rule_of(const ModuleNode& node) {
  using Kind = ModuleNode::Kind;
  if (node.kind != Kind::linear && node.kind != Kind::embedding)
    return std::string(unqualified(node.field->type)) + " layer";
  const bool is_linear = node.kind == Kind::linear;
  const std::string layer = is_linear ? "linear" : "embedding";
  const Annotation* split = split_annotation(node.field->annotations);
  if (!split) return layer + " layer";
  if (split->kind == "tp_vocab" || split->kind == "tp_shard") return split->kind + " " + layer;
  return split->kind == "tp_rowwise" ? "tp_rowwise" : "tp_colwise";
}

/// Whether an operation changes its first operand: `x.add_(y)`, `x += y`.
bool changes_first(const Expr& expr) {
  if (expr.kind != Expr::Kind::method) return is_assignment(expr);
  return expr.name.size() > 1 && expr.name.ends_with("_") && !expr.name.ends_with("__");
}

/// Whether an operation takes random numbers.
bool draws(std::string_view name) {
  static const std::set<std::string_view> names = {"rand",       "randn",       "randint",      "randperm",
                                                   "bernoulli",  "multinomial", "dropout",      "rand_like",
                                                   "randn_like", ".bernoulli",  ".multinomial", "normal"};
  return names.contains(name);
}

}  // namespace

Value Interpreter::evaluate(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::local:
      return evaluate_local(expr);
    case Expr::Kind::global:
      return invariant_of(expr.type, false);
    case Expr::Kind::literal:
      return literal(expr);
    case Expr::Kind::self:
      return frame_->self ? module_value(*frame_->self) : object_value();
    case Expr::Kind::field:
      return evaluate_field(expr);
    case Expr::Kind::call:
      return evaluate_call(expr);
    case Expr::Kind::method:
      return evaluate_method(expr);
    case Expr::Kind::op:
      return evaluate_operator(expr);
    case Expr::Kind::construct:
    case Expr::Kind::list:
    case Expr::Kind::cast:
    case Expr::Kind::lambda:
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

void Interpreter::close_sums(const Expr& expr, const std::vector<const Expr*>& operands, std::vector<Value>& values) {
  for (size_t i = changes_first(expr) ? 1 : 0; i < values.size(); ++i) {
    if (values[i].summands.empty()) continue;
    place(Call::sum, *operands[i]);
    values[i].type = kInvariant;
    values[i].summands.clear();
    // What is needed by itself saves nothing where it is added to another one later.
    if (sums_.looking && operands[i]->kind == Expr::Kind::local) frame_->variables[operands[i]->name].value = values[i];
  }
}

void Interpreter::open_sum(Operation& op, Value& result) {
  if (!sums_.looking && !sums_.calls.contains(op.expr)) return;
  op.call = op.call == Call::exit ? Call::partial : Call::none;
  result.type = kPartial;
  result.summands = {op.expr};
}

void Interpreter::add_up(const Operation& op, Value& result) {
  result.summands.clear();
  size_t added = 0;
  for (const Value& value : op.values) {
    if (value.type != kPartial) continue;
    ++added;
    if (value.summands.empty()) return result.summands.clear();
    result.summands.insert(value.summands.begin(), value.summands.end());
  }
  if (sums_.looking && added > 1) sums_.calls.insert(result.summands.begin(), result.summands.end());
}

Value Interpreter::apply(const std::string& name, const Expr& expr, std::vector<const Expr*> operands,
                         std::vector<Value> values) {
  for (const Value& value : values)
    if (value.has_failed()) return Value::failure();
  const bool has_open = std::any_of(values.begin(), values.end(), [](const Value& v) { return !v.summands.empty(); });
  if (has_open) {
    for (size_t i = 0; sums_.looking && i < values.size(); ++i)  // an operand behind may have needed this one by itself
      if (!values[i].summands.empty() && operands[i]->kind == Expr::Kind::local) values[i] = evaluate(*operands[i]);
    Operation trial{.name = name, .expr = &expr, .operands = operands, .values = values};
    const Rule linear = find_rule(name);
    if (linear) apply_rule(trial, linear);
    if (!linear || !trial.message.empty()) close_sums(expr, operands, values);
  }
  const bool invariant =
      std::all_of(values.begin(), values.end(), [](const Value& value) { return value.is_invariant(); });
  const bool gradient =
      std::any_of(values.begin(), values.end(), [](const Value& value) { return value.carries_gradient(); });
  const Rule rule = find_rule(name);
  if (!rule) {
    if (invariant) {
      note(expr, name, true, draws(name) ? "every rank draws the same numbers" : "");
      return invariant_of(expr.type, gradient);
    }
    const auto odd =
        std::find_if(values.begin(), values.end(), [](const Value& value) { return !value.is_invariant(); });
    const size_t begin = name.starts_with("op ") ? 3 : name.starts_with(".") ? 1 : 0;
    return unproven(expr, *odd, name.substr(begin));
  }
  Operation op;
  op.name = name;
  op.expr = &expr;
  op.operands = std::move(operands);
  op.values = std::move(values);
  Value result = apply_rule(op, rule);
  if (!op.message.empty()) return fail(expr.span, op.message, op.advice);
  if (op.call == Call::exit || op.call == Call::sum)
    open_sum(op, result);
  else if (result.type == kPartial)
    add_up(op, result);
  if (op.call != Call::none) place(op.call, expr);
  for (const size_t i : op.entered) place(Call::enter, *op.operands[i]);
  note(expr, name, invariant && op.call == Call::none && op.entered.empty(), op.trusted);
  // What the table gives as a tensor may be something else in an overload of that name.
  if (result.kind == Value::Kind::tensor && !expr.type.empty() && expr.type != "at::Tensor") {
    if (result.is_invariant()) return invariant_of(expr.type, gradient);
    return unproven(expr, result, name);
  }
  return result;
}

Value Interpreter::evaluate_call(const Expr& expr) {
  auto [operands, values] = evaluate_operands(expr);
  const std::string name(unqualified(expr.name));
  if (expr.name.find("modular::" + family_.name + "::") == 0) {
    for (const Function& function : family_.functions)
      if (function.name == name && function.parameters.size() >= values.size()) {
        close_sums(expr, operands, values);
        return call(function, nullptr, std::move(values), &expr);
      }
  }
  const bool is_woven = expr.name.starts_with("modular::tp::");
  return apply(is_woven ? "tp::" + name : name, expr, std::move(operands), std::move(values));
}

Value Interpreter::evaluate_method(const Expr& expr) {
  auto [operands, values] = evaluate_operands(expr);
  for (const Value& value : values)
    if (value.has_failed()) return Value::failure();
  const Value receiver = values[0];
  if (receiver.kind == Value::Kind::module)
    return evaluate_module(expr, *receiver.node, std::move(operands), std::move(values));
  if (receiver.kind == Value::Kind::tensor || receiver.kind == Value::Kind::nothing) {
    const bool in_place = changes_first(expr);
    const std::string name = "." + (in_place ? expr.name.substr(0, expr.name.size() - 1) : expr.name);
    if (receiver.kind == Value::Kind::nothing && find_rule(name)) return invariant_of(expr.type, false);
    const Value result = apply(name, expr, std::move(operands), std::move(values));
    if (in_place) assign(expr.operands[0], nullptr, result);
    return result;
  }
  if (receiver.kind == Value::Kind::list && expr.name == "size") return Value::number();
  if (names_module(expr.operands[0].type)) return unknown_module(expr);
  return apply("." + expr.name, expr, std::move(operands), std::move(values));
}

Value Interpreter::evaluate_module(const Expr& expr, const ModuleNode& node, std::vector<const Expr*> operands,
                                   std::vector<Value> values) {
  using Kind = ModuleNode::Kind;
  // What libtorch's modules can do: only their names and flags are the same for every slice of them.
  const auto apply_to_arguments = [&]() -> Value {
    static const std::set<std::string_view> harmless = {"size", "begin", "end",     "is_training",
                                                        "name", "ptr",   "is_empty"};
    if (!harmless.contains(expr.name) && is_split_inside(node)) return unproven(expr, values[0], expr.name);
    return apply("." + expr.name, expr, {operands.begin() + 1, operands.end()}, {values.begin() + 1, values.end()});
  };
  if (node.kind == Kind::family) {
    if (const Function* method = find_method(*node.type, expr.name, values.size() - 1)) {
      close_sums(expr, operands, values);
      return call(*method, &node, {values.begin() + 1, values.end()}, &expr);
    }
    return apply_to_arguments();
  }
  if (node.kind == Kind::one_of && expr.name == "forward") {
    Value result;
    for (const auto& alternative : node.children)
      result = join(result, evaluate_module(expr, *alternative, operands, values));
    return result.kind == Value::Kind::mismatch
               ? fail(expr.span, "this is " + result.text, "make the alternatives alike")
               : result;
  }
  if (node.kind == Kind::one_of && expr.name == "get") {
    for (const auto& alternative : node.children)
      if (alternative->type && expr.type.find("::" + alternative->type->name) != std::string::npos)
        return module_value(*alternative);
    return unknown_module(expr);
  }
  if (node.kind == Kind::list || expr.name != "forward") return apply_to_arguments();
  read_parameters(expr, node);
  const Partition partition = partition_of(node, "weight");
  values[0].type = type_of(partition);
  values[0].last_size = product_text(factors_of(output_size(node)).value_or(std::vector<std::string>()));
  return apply(rule_of(node), expr, std::move(operands), std::move(values));
}

Value Interpreter::evaluate_operator(const Expr& expr) {
  if (is_assignment(expr)) return evaluate_assignment(expr);
  if (expr.name == "?:") {
    evaluate_condition(expr.operands[0]);
    const Value result = join(evaluate(expr.operands[1]), evaluate(expr.operands[2]));
    return result.kind == Value::Kind::mismatch
               ? fail(expr.span, "this is " + result.text, "make both alternatives alike")
               : result;
  }
  auto [operands, values] = evaluate_operands(expr);
  for (const Value& value : values)
    if (value.has_failed()) return Value::failure();
  if (expr.operands.size() == 1 && (expr.name == "*" || expr.name == "&")) {
    // A holder, an optional or an iterator stands for what it holds.
    if (values[0].kind == Value::Kind::module || values[0].kind == Value::Kind::tensor) return values[0];
    if (!values[0].is_invariant()) return values[0];
    Value held = invariant_of(expr.type, true);
    held.factors = values[0].factors;
    return held;
  }
  if (expr.name == "++" || expr.name == "--") {
    assign(expr.operands[0], nullptr, values[0].local ? values[0] : Value::number());
    return values[0].local ? values[0] : Value::number();
  }
  if (expr.name == "[]" && values[0].kind == Value::Kind::module && values[0].node->kind == ModuleNode::Kind::list)
    return module_value(*values[0].node->children[0]);
  return apply("op " + expr.name, expr, std::move(operands), std::move(values));
}

Value Interpreter::evaluate_assignment(const Expr& expr) {
  Value value = evaluate(expr.operands[1]);
  if (expr.name != "=") {
    const Value before = evaluate(expr.operands[0]);
    value = apply("op " + expr.name.substr(0, 1), expr, {&expr.operands[0], &expr.operands[1]}, {before, value});
  }
  assign(expr.operands[0], &expr.operands[1], value);
  return value;
}

void Interpreter::assign(const Expr& target, const Expr* source, const Value& value) {
  if (target.kind == Expr::Kind::local) {
    frame_->variables[target.name] = {value, ++versions_};
    return;
  }
  if (target.kind == Expr::Kind::field && target.operands.size() == 1 && target.operands[0].kind == Expr::Kind::local) {
    Variable& variable = frame_->variables[target.operands[0].name];
    const bool is_output = target.operands[0].type == "modular::Outputs";
    if (variable.value.kind == Value::Kind::nothing) variable.value = object_value();
    variable.value.members[target.name] = is_output && source ? as_output(target.name, *source, value) : value;
    variable.version = ++versions_;
    return;
  }
  if (!value.has_failed() && !value.is_invariant())
    report(target.span, "unproven: a value that is " + describe(value) + " is kept outside of local variables",
           "return it, or keep it in a local variable");
}

Value Interpreter::evaluate_other(const Expr& expr) {
  std::vector<Value> values;
  for (const Expr& operand : expr.operands) values.push_back(evaluate(operand));
  for (const Value& value : values)
    if (value.has_failed()) return Value::failure();
  if (expr.kind == Expr::Kind::cast) return values[0];
  if (expr.kind == Expr::Kind::construct && values.empty()) return expr.name == "at::Tensor" ? Value() : object_value();
  const bool is_pair =
      expr.kind == Expr::Kind::construct && (expr.name.starts_with("std::pair") || expr.name.starts_with("std::tuple"));
  if (expr.kind == Expr::Kind::list || is_pair) {
    Value tuple;
    tuple.kind = Value::Kind::tuple;
    tuple.elements = std::move(values);
    return tuple;
  }
  if (expr.kind == Expr::Kind::lambda)
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i].kind == Value::Kind::module && is_split_inside(*values[i].node))
        return fail(expr.span,
                    "unproven: a lambda that captures a module whose parameters are split over tp or cut into stages",
                    "make it a method: no parallel calls are placed inside of lambdas");
  for (size_t i = 0; i < values.size(); ++i)
    if (!values[i].is_invariant())
      return unproven(expr.operands[i], values[i], expr.kind == Expr::Kind::lambda ? "the capture" : "this use");
  const bool gradient =
      std::any_of(values.begin(), values.end(), [](const Value& value) { return value.carries_gradient(); });
  return invariant_of(expr.type, gradient);
}

}  // namespace modgen
