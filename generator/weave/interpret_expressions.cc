// Evaluation of expressions: operations by the rule table, calls and layers. Rules apply to declarations of libtorch
// and of the contract, as resolved by Clang; a family's own functions are interpreted. Names alone never decide.
#include <algorithm>
#include <charconv>
#include <set>

#include "generator/weave/interpreter.h"
#include "generator/weave/partition.h"

namespace modgen {
namespace {

using Home = Callee::Home;

Value literal(const Expr& expr) {
  Value value = Value::number();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(expr.name.data(), expr.name.data() + expr.name.size(), number);
  if (error != std::errc() || end != expr.name.data() + expr.name.size()) return value;
  if (expr.name.size() > 1 && expr.name.front() == '0') return value;  // octal
  value.known = Value::small(number);
  value.factors.emplace();
  if (number != 1) value.factors->push_back(expr.name);
  return value;
}

/// Name of the rule for a layer of libtorch or of the contract.
std::string placement_rule(const ModuleNode& node) {
  using Kind = ModuleNode::Kind;
  if (node.library_class == "torch::nn::Dropout") return node.library_class + " layer";
  if (node.kind != Kind::linear && node.kind != Kind::embedding)
    return std::string(unqualified(node.library_class)) + " layer";
  const bool is_linear = node.kind == Kind::linear;
  const std::string layer = is_linear ? "linear" : "embedding";
  const Annotation* split = split_annotation(node.field->annotations);
  if (!split) return layer + " layer";
  if (split->kind == "tp_vocab" || split->kind == "tp_shard") return split->kind + " " + layer;
  return split->kind == "tp_rowwise" ? "tp_rowwise" : "tp_colwise";
}

/// Whether an operation consumes random numbers.
bool is_random(std::string_view name) {
  static const std::set<std::string_view> names = {"rand",       "randn",       "randint",      "randperm",
                                                   "bernoulli",  "multinomial", "dropout",      "rand_like",
                                                   "randn_like", ".bernoulli",  ".multinomial", "normal"};
  return names.contains(name);
}

Home get_home(const Expr& expr) { return expr.callee ? expr.callee->home : Home::unknown; }

/// Whether a function writes into its operand 0, judging by its name: `torch::relu_(x)`, `torch::add_out(x, y, z)`,
/// `init::zeros_(x)`.
bool is_in_place_function(const Expr& expr, std::string_view name) {
  const Home home = get_home(expr);
  return (home == Home::torch || home == Home::contract) && !expr.operands.empty() &&
         ((name.ends_with("_") && !name.ends_with("__")) || name.ends_with("_out"));
}

/// Whether the type is a container, which a single number may have been converted to.
bool is_container(std::string_view type) {
  static constexpr std::string_view names[] = {"std::vector<", "std::array<", "std::deque<", "c10::SmallVector<"};
  return std::ranges::any_of(names, [&](std::string_view name) { return type.starts_with(name); });
}

/// Whether a number of that type may be another one than what was computed for it.
bool is_narrow(std::string_view type) {
  static constexpr std::string_view names[] = {"bool",  "char",           "signed char", "unsigned char",
                                               "short", "unsigned short", "float"};
  return std::ranges::find(names, type) != std::end(names);
}

std::vector<const Expr*> drop_first(const std::vector<const Expr*>& operands) {
  return {operands.begin() + 1, operands.end()};
}

}  // namespace

Value Interpreter::evaluate(const Expr& expr) {
  using Kind = Value::Kind;
  Value value = evaluate_kind(expr);
  if (value.has_failed()) return value;
  const bool is_made =
      expr.kind != Expr::Kind::local && expr.kind != Expr::Kind::field && expr.kind != Expr::Kind::lambda;
  if (is_made && !is_assignment(expr) && value.kind != Kind::module && may_refer(expr.type)) {
    const bool is_own = expr.callee && expr.callee->home == Home::family;
    for (const Expr& operand : expr.operands)
      refer_to(operand, expr.type, is_own || expr.kind == Expr::Kind::list || expr.kind == Expr::Kind::construct);
  }
  if (is_narrow(expr.type)) value.known.reset();
  if (!expr.narrowed_to.empty() && value.kind == Kind::number) {
    if (value.local && expr.narrowed_to != "bool")
      return fail(expr.span, "unproven: a tp-local count that is converted to " + expr.narrowed_to + " may change",
                  "compute it in the constructor, where counts are global");
    value.known.reset(), value.factors.reset(), value.terms.clear();
  }
  // The C++ type may be more specific than the value that was propagated.
  const bool is_tensor = value.kind == Kind::tensor || value.kind == Kind::nothing;
  const bool unlike = expr.type == "at::Tensor" ? !is_tensor && value.kind != Kind::mismatch
                      : is_tensor               ? make_invariant(expr.type, false).kind == Kind::number
                                                : value.kind == Kind::number && is_container(expr.type);
  if (!unlike) return value;
  if (!value.is_invariant()) return unproven(expr, value, "this use");
  Value known = make_invariant(expr.type, true);
  set_storage(known, value.storage);
  return known;
}

Value Interpreter::evaluate_kind(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::local:
      return evaluate_local(expr);
    case Expr::Kind::global:
      if (expr.name.starts_with("modular::tp::") || expr.name.starts_with("modular::pp::") ||
          expr.name.starts_with("modular::fsdp::"))
        return fail(expr.span, "unproven: " + expr.name + " belongs to the runtime, and differs between ranks",
                    "leave it to modgen to insert parallel calls");
      return expr.callee ? evaluate_function(expr) : make_invariant(expr.type, false);
    case Expr::Kind::literal:
      return literal(expr);
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

// ---- Operations ----

void Interpreter::close_sums(const Expr& expr, const std::vector<const Expr*>& operands, std::vector<Value>& values) {
  for (size_t i = changes_first(expr) ? 1 : 0; i < values.size(); ++i) {
    if (values[i].summands.empty()) continue;
    if (!sums_.looking && expr.callee && std::ranges::count(expr.callee->changes, i) > 0)
      sums_.changed.insert(values[i].summands.begin(), values[i].summands.end());
    insert_call(Call::sum, *operands[i]);
    values[i].type = kInvariant;
    values[i].summands.clear();
    set_storage(values[i], Storage());
    // A sum that is needed here saves nothing if the value is added to another one later.
    if (!sums_.looking || operands[i]->kind != Expr::Kind::local) continue;
    if (const std::optional<AccessPath> known = get_access_path(*operands[i])) write(*known, values[i], expr.span);
  }
}

void Interpreter::open_sum(Operation& op, Value& result) {
  if ((!sums_.looking && !sums_.calls.contains(op.expr)) || sums_.changed.contains(op.expr)) return;
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

Value Interpreter::apply_unknown(const std::string& name, const Expr& expr, const std::vector<const Expr*>& operands,
                                 const std::vector<Value>& values) {
  for (const Value& value : values) {
    if (value.kind == Value::Kind::module && value.node->holds_parameters())
      return fail(expr.span, "unproven: the parameters of a module are read outside of its methods",
                  "call the module, or one of its methods");
    if (value.is_invariant()) continue;
    const size_t begin = name.starts_with("op ") ? 3 : name.starts_with(".") ? 1 : 0;
    return unproven(expr, value, name.substr(begin));
  }
  const bool gradient =
      std::any_of(values.begin(), values.end(), [](const Value& value) { return value.carries_gradient(); });
  note(expr, name, true, is_random(name) ? "every rank draws the same random numbers" : "");
  Value result = make_invariant(expr.type, gradient);
  give_storage(name, expr, values, result);
  if (!changes_first(expr)) forget_changed(expr, operands, values);
  return result;
}

Value Interpreter::apply(const std::string& name, Rule rule, const Expr& expr, std::vector<const Expr*> operands,
                         std::vector<Value> values) {
  for (const Value& value : values)
    if (value.has_failed()) return Value::failure();
  const bool has_open = std::any_of(values.begin(), values.end(), [](const Value& v) { return !v.summands.empty(); });
  if (has_open) {
    for (size_t i = 0; sums_.looking && i < values.size(); ++i)  // a later operand may have closed this sum
      if (!values[i].summands.empty() && operands[i]->kind == Expr::Kind::local) values[i] = evaluate(*operands[i]);
    Operation trial{.name = name, .expr = &expr, .operands = operands, .values = values};
    if (rule) apply_rule(trial, rule);
    if (!rule || !trial.message.empty()) close_sums(expr, operands, values);
  }
  if (!rule) return apply_unknown(name, expr, operands, values);
  const bool invariant =
      std::all_of(values.begin(), values.end(), [](const Value& value) { return value.is_invariant(); });
  const bool gradient =
      std::any_of(values.begin(), values.end(), [](const Value& value) { return value.carries_gradient(); });
  Operation op;
  op.name = name;
  op.expr = &expr;
  op.operands = std::move(operands);
  op.values = std::move(values);
  const std::vector<Value> given = op.values;
  Value result = apply_rule(op, rule);
  if (!op.message.empty()) return report_rejection(op);
  if (op.call == Call::exit || op.call == Call::sum)
    open_sum(op, result);
  else if (result.type == kPartial)
    add_up(op, result);
  if (changes_first(expr) && (op.call != Call::none || std::ranges::count(op.entered, 0U) > 0))
    return fail(expr.span, "an in-place change of a value around which a parallel call would have to be inserted",
                "write it out of place, as in x = x + y");
  if (op.call != Call::none) insert_call(op.call, expr);
  for (const size_t i : op.entered) insert_call(Call::enter, *op.operands[i]);
  note(expr, name, invariant && op.call == Call::none && op.entered.empty(), op.trusted);
  // An overload of that name may return something other than the tensor in the rule table.
  if (result.kind == Value::Kind::tensor && !expr.type.empty() && expr.type != "at::Tensor") {
    if (!result.is_invariant()) return unproven(expr, result, name);
    result = make_invariant(expr.type, gradient);
  }
  give_storage(name, expr, given, result);
  if (op.call != Call::none) set_storage(result, Storage());  // allocated by the runtime
  return result;
}

Value Interpreter::report_rejection(const Operation& op) {
  // If the error is about an argument of another module's method, report it at the call of that method.
  const Frame* frame = frame_;
  const Value* given = nullptr;
  const auto is_about_parameter = [&](const Frame& callee) {
    const auto& parameters = callee.function->parameters;
    for (size_t i = 0; i < op.operands.size() && i < op.values.size(); ++i)
      if (op.operands[i]->kind == Expr::Kind::local && !op.values[i].is_invariant() &&
          std::ranges::any_of(parameters, [&](const Parameter& p) { return p.name == op.operands[i]->name; }))
        return true;
    return false;
  };
  if (frame->caller && frame->called && frame->self && frame->self != frame->caller->self &&
      is_about_parameter(*frame)) {
    const auto odd = std::ranges::find_if(frame->given, [](const Value& value) { return !value.is_invariant(); });
    if (odd != frame->given.end()) {
      given = &*odd;
      frame = frame->caller;
    }
  }
  if (frame == frame_) return fail(op.expr->span, op.message, op.advice);
  const Frame* inner = frame_;
  while (inner->caller != frame) inner = inner->caller;
  const std::string name =
      inner->self->type ? inner->self->type->holder + "::" + inner->function->name : inner->function->name;
  report(inner->called->span, op.message,
         op.advice.empty() ? "pass full values to " + name +
                                 ", or values that are split along another dimension: for "
                                 "heads, view the value by heads first, with a count that is TP_LOCAL"
                           : op.advice,
         {{false, op.expr->span, "in " + name + ", which is passed a value that is " + describe(*given), "", {}}});
  return Value::failure();
}

// ---- Calls ----

std::optional<Value> Interpreter::evaluate_forwarding(const Expr& expr) {
  if (get_home(expr) != Home::standard) return std::nullopt;
  const std::string_view name = expr.name;
  if (expr.operands.size() == 1 && (name == "std::move" || name == "std::forward" || name == "std::as_const")) {
    Value value = evaluate(expr.operands[0]);
    if (name == "std::move" && expr.operands[0].kind == Expr::Kind::local && value.kind != Value::Kind::module)
      if (Variable* variable = find_variable(expr.operands[0]); variable && !variable->refers_to)
        variable->was_moved = true, variable->version = ++versions_;
    return value;
  }
  if (name == "std::addressof" && expr.operands.size() == 1 && get_access_path(expr.operands[0])) {
    write(*get_access_path(expr.operands[0]), Value::failure(), expr.span);
    return fail(expr.span, "unproven: a pointer to a variable", "pass it by reference, or return the value");
  }
  if (name == "std::make_pair" || name == "std::make_tuple") {
    Value tuple;
    tuple.kind = Value::Kind::tuple;
    tuple.elements = evaluate_operands(expr).second;
    if (tuple.has_failed()) return Value::failure();
    return tuple;
  }
  if (name == "std::tie" || name == "std::ref" || name == "std::forward_as_tuple")
    return fail(expr.span, "unproven: a value that contains references", "assign to std::tie(…), or pass the values");
  return std::nullopt;
}

Value Interpreter::evaluate_call(const Expr& expr) {
  if (std::optional<Value> forwarded = evaluate_forwarding(expr)) return *forwarded;
  auto [operands, values] = evaluate_operands(expr);
  if (get_home(expr) == Home::family) {
    close_sums(expr, operands, values);
    for (const Value& value : values)
      if (value.has_failed()) return Value::failure();
    if (const Function* function = functions_.find(*expr.callee))
      return call(*function, nullptr, operands, std::move(values), &expr);
    return fail(expr.span, "unproven: the definition of " + std::string(unqualified(expr.name)) + " is not known here",
                "define it in the spec, outside of functions");
  }
  std::string name(unqualified(expr.name));
  if (is_in_place_function(expr, name)) {
    for (const Value& value : values)
      if (value.has_failed()) return Value::failure();
    const Value after = apply_unknown(name, expr, operands, values);
    if (!after.has_failed()) change_in_place(expr, *operands[0], values[0], values[0]);
    return after;
  }
  const Rule rule = expr.callee ? find_rule(*expr.callee, name) : nullptr;
  if (!rule && expr.name.starts_with("modular::tp::"))
    return fail(expr.span, "unproven: " + expr.name + " in a spec", "leave it to modgen to insert parallel calls");
  return apply(name, rule, expr, std::move(operands), std::move(values));
}

Value Interpreter::evaluate_method(const Expr& expr) {
  // layers->index_of(layer): the index is the same on all ranks and stages.
  const bool counts =
      expr.callee && expr.name == "index_of" && expr.callee->name.starts_with("modular::ModuleListOfImpl");
  const Expr* list = &expr.operands[0];
  while (list->kind == Expr::Kind::op && list->operands.size() == 1) list = list->operands.data();  // `->` of a holder
  if (counts) traversed_list_ = list;
  auto [operands, values] = evaluate_operands(expr);
  if (counts) traversed_list_ = nullptr;
  for (const Value& value : values)
    if (value.has_failed()) return Value::failure();
  const Value receiver = values[0];
  const Home home = get_home(expr);
  if (counts && receiver.kind == Value::Kind::module) return Value::number();
  if (receiver.kind == Value::Kind::module)
    return evaluate_module(expr, *receiver.node, std::move(operands), std::move(values));
  if (names_module(expr.operands[0].type)) return unknown_module(expr);
  if (home == Home::family) {
    close_sums(expr, operands, values);
    const Function* method = functions_.find(*expr.callee);
    if (!method || expr.callee->of_module)
      return fail(expr.span, "unproven: the definition of " + expr.name + " is not known here",
                  "define it in the spec");
    return call_on_object(*method, operands[0], drop_first(operands), std::move(values), expr);
  }
  const bool is_tensor = receiver.kind == Value::Kind::tensor || receiver.kind == Value::Kind::nothing;
  if (is_tensor && home == Home::torch) {
    const bool in_place = is_in_place_method(expr);
    const std::string name = "." + (in_place ? expr.name.substr(0, expr.name.size() - 1) : expr.name);
    const Rule rule = find_rule(name);
    static const std::set<std::string_view> pointers = {"mutable_data_ptr",  "data_ptr",           "accessor",
                                                        "packed_accessor32", "packed_accessor64",  "set_data",
                                                        "storage",           "unsafeGetTensorImpl"};
    if (pointers.contains(expr.name) && !why_not_in_place(expr.operands[0], receiver).empty())
      return fail(expr.span, why_not_in_place(expr.operands[0], receiver), "compute a new tensor");
    if (receiver.kind == Value::Kind::nothing && rule && !in_place) return make_invariant(expr.type, false);
    const Value result = apply(name, rule, expr, std::move(operands), std::move(values));
    if (in_place) change_in_place(expr, expr.operands[0], receiver, result);
    return result;
  }
  if (home == Home::standard && expr.operands.size() == 1 && expr.name == "value") return receiver;
  if (receiver.kind == Value::Kind::list && expr.name == "size") return Value::number();
  return apply("." + expr.name, nullptr, expr, std::move(operands), std::move(values));
}

Value Interpreter::evaluate_module(const Expr& expr, const ModuleNode& node, std::vector<const Expr*> operands,
                                   std::vector<Value> values) {
  using Kind = ModuleNode::Kind;
  // Methods of libtorch modules: only names and flags are the same for every shard.
  const auto apply_to_arguments = [&]() -> Value {
    static const std::set<std::string_view> harmless = {"size", "begin", "end", "is_training", "name", "is_empty"};
    if (expr.name == "get" || expr.name == "ptr") return module_value(node);
    if (!harmless.contains(expr.name) && (is_split_inside(node) || node.holds_parameters()))
      return unproven(expr, values[0], expr.name);
    return apply_unknown("." + expr.name, expr, drop_first(operands), {values.begin() + 1, values.end()});
  };
  if (node.kind == Kind::family) {
    const Function* method = expr.callee ? functions_.find(*expr.callee) : nullptr;
    // The callee may belong to another alternative of a OneOf: look it up by name.
    const bool is_own = method && std::ranges::any_of(node.type->functions, [&](const Function& candidate) {
                          return &candidate == method ||
                                 (method->is_instance && candidate.is_template && candidate.name == method->name);
                        });
    if (!is_own) method = FunctionIndex::only_method(*node.type, expr.name, values.size() - 1);
    if (method) {
      close_sums(expr, operands, values);
      return call(*method, &node, drop_first(operands), {values.begin() + 1, values.end()}, &expr);
    }
    return apply_to_arguments();
  }
  if (node.kind == Kind::one_of && expr.name == "forward") {
    Value result;
    for (const auto& alternative : node.children)
      result = join(result, evaluate_module(expr, *alternative, operands, values));
    return result.kind == Value::Kind::mismatch
               ? fail(expr.span, "this is " + result.text, "make the alternatives the same")
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
  const Partition partition = find_partition(node, "weight");
  values[0].type = to_type(partition);
  values[0].last_size = product_text(find_factors(output_size(node)).value_or(std::vector<std::string>()));
  const std::string name = placement_rule(node);
  const Rule rule = find_rule(name);
  if (rule) return apply(name, rule, expr, std::move(operands), std::move(values));
  if (values.size() > 1 && std::ranges::all_of(values.begin() + 1, values.end(), &Value::is_invariant)) {
    note(expr, name, true, "");
    Value result = make_invariant(expr.type, true);
    give_storage(name, expr, values, result);
    return result;
  }
  return apply_unknown(name, expr, drop_first(operands), {values.begin() + 1, values.end()});
}

// ---- Operators, lists and lambdas ----

Value Interpreter::evaluate_operator(const Expr& expr) {
  const Function* own = expr.callee ? functions_.find(*expr.callee) : nullptr;
  if (is_assignment(expr) && !own) return evaluate_assignment(expr);
  if (expr.name == "?:") {
    evaluate_condition(expr.operands[0]);
    const Value one = evaluate_conditionally(expr.operands[1]);
    const Value result = join(one, evaluate_conditionally(expr.operands[2]));
    return result.kind == Value::Kind::mismatch
               ? fail(expr.span, "this is " + result.text, "make both alternatives the same")
               : result;
  }
  const bool is_built_in = !expr.callee;
  if (is_built_in && expr.name == ",") {
    evaluate(expr.operands[0]);
    return evaluate(expr.operands[1]);
  }
  if (is_built_in && (expr.name == "&&" || expr.name == "||")) {
    const Value one = evaluate(expr.operands[0]), other = evaluate_conditionally(expr.operands[1]);
    return apply_unknown("op " + expr.name, expr, {&expr.operands[0], &expr.operands[1]}, {one, other});
  }
  auto [operands, values] = evaluate_operands(expr);
  for (const Value& value : values)
    if (value.has_failed()) return Value::failure();
  if (own) {
    close_sums(expr, operands, values);
    const bool of_object = values.size() == own->parameters.size() + 1;
    if (of_object) return call_on_object(*own, operands[0], drop_first(operands), std::move(values), expr);
    return call(*own, nullptr, operands, std::move(values), &expr);
  }
  if (get_home(expr) == Home::family)
    return fail(expr.span, "unproven: the definition of this operator is not known here", "define it in the spec");
  if (expr.operands.size() == 1 && (expr.name == "*" || expr.name == "&")) {
    const bool takes_address = expr.name == "&" && values[0].kind != Value::Kind::module;
    if (const std::optional<AccessPath> path = get_access_path(expr.operands[0]); takes_address && path) {
      write(*path, Value::failure(), expr.span);
      return fail(expr.span, "unproven: a pointer to a variable", "pass it by reference, or return the value");
    }
    // A holder, an optional or an iterator evaluates to the value that it holds.
    if (values[0].kind == Value::Kind::module || values[0].kind == Value::Kind::tensor) return values[0];
    if (!values[0].is_invariant()) return values[0];
    Value held = make_invariant(expr.type, true);
    held.factors = values[0].factors;
    set_storage(held, values[0].storage);
    return held;
  }
  if (expr.name == "++" || expr.name == "--") {
    const Value counted = values[0].local ? values[0] : Value::number();
    assign(expr.operands[0], nullptr, counted);
    return counted;
  }
  if (expr.name == "[]" && values[0].kind == Value::Kind::module && values[0].node->kind == ModuleNode::Kind::list)
    return module_value(*values[0].node->children[0]);
  const std::string name = "op " + expr.name;
  const bool has_rule =
      is_built_in || get_home(expr) == Home::torch || (expr.name == "[]" && get_home(expr) == Home::standard);
  return apply(name, has_rule ? find_rule(name) : nullptr, expr, std::move(operands), std::move(values));
}

Value Interpreter::evaluate_list(const Expr& expr) {
  if (const std::string why = why_unsupported(expr.type); !why.empty()) return fail(expr.span, why, kUseDefaultCopies);
  Value result;
  result.kind = expr.members.empty() ? Value::Kind::tuple : Value::Kind::object;
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
  if (expr.type == "modular::Outputs" && expr.operands.empty()) return object_value();
  return result;
}

Value Interpreter::evaluate_lambda(const Expr& expr) {
  Storage storage;
  storage.is_known = true;
  bool has_gradient = false;
  for (const Expr& capture : expr.operands) {
    const Value value = evaluate(capture);
    if (value.has_failed()) return value;
    if (value.kind == Value::Kind::module && is_split_inside(*value.node))
      return fail(expr.span,
                  "unproven: a lambda that captures a module whose parameters are split over tp or cut into stages",
                  "make it a method: no parallel calls are inserted into lambdas");
    if (!value.is_invariant()) return unproven(capture, value, "the capture");
    storage = merged(storage, get_storage(value));
    has_gradient |= value.carries_gradient() || (capture.is_reference && value.kind != Value::Kind::number);
    if (!capture.is_reference) continue;
    if (const std::optional<AccessPath> path = get_access_path(capture))
      find_root(*path).is_captured = find_root(*path).is_captured_by_lambda = true;
    else if (value.kind != Value::Kind::module)
      refer_to(capture, capture.type, false);
  }
  if (expr.is_template) return fail(expr.span, "unproven: a lambda with auto parameters", "name the parameters' types");
  Body body = *expr.body;
  bool fails = false;
  for_each_expr(body, [&](Expr& inner) {
    const bool is_number = !inner.operands.empty() && inner.operands[0].type != "at::Tensor";
    const bool in_place = is_in_place_method(inner) || (is_assignment(inner) && inner.name != "=") ||
                          (is_assignment(inner) && !inner.operands[0].is_lvalue);
    if (in_place && !is_number && !fails) {
      report(inner.span, "a lambda changes a tensor in place", "write it out of place, or in the method itself");
      fails = true;
    }
    const bool counts = inner.kind == Expr::Kind::op && (inner.name == "++" || inner.name == "--");
    if (!(is_assignment(inner) || counts) || inner.operands.empty()) return;
    // Variables that the lambda may change at any time have unknown values from here on.
    const Expr* target = &inner.operands[0];
    while (target->kind != Expr::Kind::local && !target->operands.empty()) target = &target->operands[0];
    const bool is_captured = std::ranges::any_of(expr.operands, [&](const Expr& capture) {
      return capture.is_reference && capture.variable == target->variable && target->kind == Expr::Kind::local;
    });
    if (!is_captured || fails) return;
    report(inner.span, "unproven: a lambda changes " + target->name + ", which it captures by reference",
           "return the value from the lambda, or write a loop");
    fails = true;
  });
  if (fails || !run_lambda(expr)) return Value::failure();
  Value result = object_value();
  result.gradient = has_gradient;
  result.storage = storage;
  return result;
}

bool Interpreter::run_lambda(const Expr& expr) {
  Frame& frame = *frame_;
  const State before = state();
  const size_t errors = findings_.size(), placed = frame.placements.size();
  std::set<uint32_t> around;
  for (const auto& [number, variable] : frame.variables) around.insert(number);
  const auto outside = std::exchange(frame.outside_of_lambda, std::move(around));
  auto results = std::exchange(frame.results, {});
  auto returned = std::exchange(frame.returned, {});
  auto enclosing = std::exchange(frame.enclosing, {});
  execute_block(expr.body->statements);
  const State after = state();
  frame.outside_of_lambda = outside;
  frame.results = std::move(results);
  frame.returned = std::move(returned);
  frame.enclosing = std::move(enclosing);
  frame.ended = false;
  restore(before);
  for (const Expr& capture : expr.operands) {
    if (!capture.is_reference || capture.kind != Expr::Kind::local) continue;
    const auto was = before.front().second.find(capture.variable), is = after.front().second.find(capture.variable);
    if (was == before.front().second.end() || is == after.front().second.end() ||
        was->second.version == is->second.version)
      continue;
    report(expr.span, "unproven: a lambda changes " + capture.name + ", which it captures by reference",
           "return the value from the lambda, or write a loop");
  }
  if (frame.placements.size() != placed)
    report(expr.span, "unproven: a lambda in which parallel calls would have to be inserted",
           "make it a method: no parallel calls are inserted into lambdas");
  return findings_.size() == errors;
}

Value Interpreter::evaluate_other(const Expr& expr) {
  auto [operands, values] = evaluate_operands(expr);
  for (const Value& value : values)
    if (value.has_failed()) return Value::failure();
  if (expr.kind == Expr::Kind::thrown) return {};
  if (expr.takes_const_away)
    return fail(expr.span, "unproven: a cast that removes const", "declare variables that change without const");
  if (expr.kind == Expr::Kind::cast) return values[0];
  if (expr.kind == Expr::Kind::construct) {
    if (const std::string why = why_unsupported(expr.type); !why.empty())
      return fail(expr.span, why, kUseDefaultCopies);
    if (values.empty() && expr.name == "at::Tensor") return {};
    if (const Function* constructor = expr.callee ? functions_.find(*expr.callee) : nullptr;
        constructor && !expr.callee->of_module)
      return call_on_object(*constructor, nullptr, operands, std::move(values), expr);
    if (values.empty()) return object_value();
    if (expr.name.starts_with("std::pair") || expr.name.starts_with("std::tuple")) {
      Value tuple;
      tuple.kind = Value::Kind::tuple;
      tuple.elements = std::move(values);
      return tuple;
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].is_invariant()) return unproven(expr.operands[i], values[i], "this use");
    if (values[i].kind == Value::Kind::module && values[i].node->holds_parameters())
      return unknown_module(expr.operands[i]);
  }
  const bool gradient =
      std::any_of(values.begin(), values.end(), [](const Value& value) { return value.carries_gradient(); });
  Value result = make_invariant(expr.type, gradient);
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
