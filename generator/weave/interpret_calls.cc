// Calls of functions, methods and layers, and lambdas.
#include <algorithm>
#include <set>

#include "generator/weave/interpreter.h"
#include "generator/weave/partition.h"
#include "generator/weave/rules/rules.h"
#include "generator/weave/shares.h"

namespace modgen {
namespace {

/// Name of the rule for a layer of libtorch or of the contract.
std::string placement_rule(const ModuleNode& node, Axis axis) {
  using Kind = ModuleNode::Kind;
  // The rules are those of the contract's layers of these names.
  if (node.library_class == "torch::nn::Dropout" || node.library_class == "torch::nn::LayerNorm")
    return node.library_class + " layer";
  if (node.kind != Kind::linear && node.kind != Kind::embedding)
    return std::string(unqualified(node.library_class)) + " layer";
  const bool is_linear = node.kind == Kind::linear;
  const std::string layer = is_linear ? "linear" : "embedding";
  const Annotation* split = axis == Axis::tp ? split_annotation(node.field->annotations) : nullptr;
  if (!split) return layer + " layer";
  const std::string name(annotation_info(split->kind).name);
  if (split->kind == AnnotationKind::tp_vocab || split->kind == AnnotationKind::tp_shard) return name + " " + layer;
  return split->kind == AnnotationKind::tp_colwise_parts ? "tp_colwise" : name;
}

/// Whether a function writes into its operand 0, judging by its name: `torch::relu_(x)`, `torch::add_out(x, y, z)`,
/// `init::zeros_(x)`.
bool is_in_place_function(const Expr& expr, std::string_view name) {
  const Callee::Home home = get_home(expr);
  return (home == Callee::Home::torch || home == Callee::Home::contract) && !expr.operands.empty() &&
         ((name.ends_with("_") && !name.ends_with("__")) || name.ends_with("_out"));
}

}  // namespace

FunctionIndex::FunctionIndex(const FamilyModel& family) {
  const auto add = [&](const std::vector<Function>& functions) {
    for (const Function& function : functions)
      if (!function.is_template) by_signature_.emplace(function.signature, &function);
  };
  for (const auto* classes : {&family.classes, &family.inner_classes})
    for (const Class& owner : *classes) add(owner.functions);
  add(family.functions);
  add(family.friends);
  add(family.instances);
}

const Function* FunctionIndex::find(const Callee& callee) const {
  if (callee.home != Callee::Home::family) return nullptr;
  const auto found = by_signature_.find(callee.signature);
  return found == by_signature_.end() ? nullptr : found->second;
}

const Function* FunctionIndex::only_method(const Class& owner, std::string_view name, size_t arguments) {
  const Function* only = nullptr;
  for (const Function& function : owner.functions) {
    if (function.is_constructor || function.name != name || function.parameters.size() < arguments) continue;
    if (only) return nullptr;
    only = &function;
  }
  return only;
}

std::optional<Value> Interpreter::evaluate_forwarding(const Expr& expr) {
  if (get_home(expr) != Callee::Home::standard) return std::nullopt;
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
  if (get_home(expr) == Callee::Home::family) {
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
    if (after.has_failed()) return after;
    Value changed = after.kind == Value::Kind::unknown ? after : values[0];
    changed.gradient |= after.gradient;
    changed.parameters.merge(get_parameters(values));
    if (sequence_) use_parameters(expr.span, changed.parameters, /*is_partial=*/false);
    change_in_place(expr, *operands[0], values[0], changed);
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
  const Callee::Home home = get_home(expr);
  // A hook of a result whose sum is left open would be on the sum that is inserted where the result is read.
  static const std::set<std::string_view> hooks = {"register_hook", "retain_grad", "backward"};
  if (sums_.looking && hooks.contains(expr.name))
    sums_.changed.insert(receiver.summands.begin(), receiver.summands.end());
  if (sequence_ && hooks.contains(expr.name) && is_share(receiver))
    return fail(expr.span, expr.name + " of a value that is " + describe(receiver), "");
  if (axis_ == Axis::rows && hooks.contains(expr.name) && receiver.kind == Value::Kind::tensor &&
      receiver.is_invariant())
    return fail(expr.span,
                expr.name +
                    " of a value that is the same for all rows of the batch: each rank and micro-batch has a part "
                    "of its gradient only",
                "compute what changes the gradient in forward, or in an optimizer");
  if (counts && receiver.kind == Value::Kind::module) return Value::number();
  if (receiver.kind == Value::Kind::module)
    return evaluate_module(expr, *receiver.node, std::move(operands), std::move(values));
  if (names_module(expr.operands[0].type)) return unknown_module(expr);
  if (home == Callee::Home::family) {
    close_sums(expr, operands, values);
    const Function* method = functions_.find(*expr.callee);
    if (!method || expr.callee->of_module)
      return fail(expr.span, "unproven: the definition of " + expr.name + " is not known here",
                  "define it in the spec");
    return call_on_object(*method, operands[0], drop_first(operands), std::move(values), expr);
  }
  const bool is_tensor = receiver.kind == Value::Kind::tensor || receiver.kind == Value::Kind::nothing;
  if (is_tensor && home == Callee::Home::torch) {
    const bool in_place = is_in_place_method(expr);
    if (expr.name == "copy_" && is_tensor && values.size() > 1 && !find_unknown(values[1])) {
      close_sums(expr, operands, values);
      return copy_into(expr, expr.operands[0], receiver, values[1]);
    }
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
  if (home == Callee::Home::standard && expr.operands.size() == 1 && expr.name == "value") return receiver;
  if (receiver.kind == Value::Kind::list && expr.name == "size") return Value::number();
  return apply("." + expr.name, nullptr, expr, std::move(operands), std::move(values));
}

Value Interpreter::evaluate_module(const Expr& expr, const ModuleNode& node, std::vector<const Expr*> operands,
                                   std::vector<Value> values) {
  using Kind = ModuleNode::Kind;
  // Methods of libtorch modules: only names and flags are the same for every shard.
  const auto apply_to_arguments = [&]() -> Value {
    static const std::set<std::string_view> harmless = {"size",        "begin", "end",     "drops",
                                                        "is_training", "name",  "is_empty"};
    if (expr.name == "get" || expr.name == "ptr") return module_value(node);
    if (!harmless.contains(expr.name) && (is_split_inside(node) || node.holds_parameters()))
      return unproven(expr, values[0], expr.name);
    if (!harmless.contains(expr.name))
      return apply_unlisted(expr.name, expr, drop_first(operands), {values.begin() + 1, values.end()});
    Value result = make_invariant(expr.type, false);
    note(expr, "." + expr.name, true, "");
    give_storage("." + expr.name, expr, {}, result);
    return result;
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
  if (axis_ == Axis::tp) {
    const Partition partition = find_partition(node, "weight");
    values[0].type = to_type(partition);
    values[0].counts = find_counts(node, partition, local_counts_);
    values[0].is_vocabulary = is_vocabulary(node, partition, vocabularies_);
  }
  const Count features = output_size(node).count;
  values[0].last_size = product_text(features);
  values[0].sizes = Sizes({features});
  const std::string name = placement_rule(node, axis_);
  const Rule rule = find_rule(name);
  const bool is_alike = std::all_of(values.begin() + 1, values.end(), [](const Value& v) { return v.is_invariant(); });
  if (rule || (axis_ != Axis::tp && !is_alike)) return apply(name, rule, expr, std::move(operands), std::move(values));
  if (std::optional<Value> unknown = meet_unknown(expr, operands, values)) return *unknown;
  if (values.size() > 1 && is_alike) {
    if (!is_known_layer(name))
      return apply_unlisted("the " + name, expr, drop_first(operands), {values.begin() + 1, values.end()});
    note(expr, name, true, "");
    if (sequence_) return apply_to_shares(name, nullptr, expr, std::move(operands), std::move(values));
    Value result = make_invariant(expr.type, true);
    give_storage(name, expr, values, result);
    return result;
  }
  return apply_unknown(name, expr, drop_first(operands), {values.begin() + 1, values.end()});
}

Value Interpreter::evaluate_lambda(const Expr& expr) {
  Value result = object_value();
  Storage storage;
  storage.is_known = true;
  bool has_gradient = false;
  std::optional<Value> unknown;
  for (const Expr& capture : expr.operands) {
    const Value value = evaluate(capture);
    if (value.has_failed()) return value;
    if (value.kind == Value::Kind::module && is_split_inside(*value.node))
      return fail(expr.span,
                  "unproven: a lambda that captures a module whose parameters are split over tp or cut into stages",
                  "make it a method: no parallel calls are inserted into lambdas");
    if (const Value* part = find_unknown(value); part && !unknown) unknown = *part;
    if (find_variant(value)) return unproven(capture, value, "the capture");
    storage = merged(storage, get_storage(value));
    result.parameters.merge(get_parameters(value));
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
  if (fails || !run_lambda(expr, unknown)) return Value::failure();
  if (unknown) return *unknown;
  result.gradient = has_gradient;
  result.storage = storage;
  return result;
}

bool Interpreter::run_lambda(const Expr& expr, std::optional<Value>& unknown) {
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
  for (const Value& result : frame.results) {
    if (const Value* part = find_unknown(result); part && !unknown) unknown = *part;
    if (const Value* part = find_variant(result); part && !result.has_failed()) unproven(expr, *part, "the result");
    if (sequence_) use_parameters(expr.span, get_parameters(result), /*is_partial=*/false);
  }
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

}  // namespace modgen
