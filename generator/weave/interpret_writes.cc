// References, assignments and in-place changes. A reference variable denotes the object that it is bound to. A tensor
// is a handle, so a copy of it shares its memory.
#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "generator/source/names.h"
#include "generator/weave/interpreter.h"
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

/// Whether `expr`, which changes a tensor in place, may save its result for backward, as `relu_` does.
bool saves_result(const Expr& expr) {
  static constexpr std::array others = {"zero_",       "fill_",       "copy_",    "clamp_",      "index_add_",
                                        "index_copy_", "index_fill_", "scatter_", "scatter_add_"};
  if (is_assignment(expr)) return false;
  const std::string_view name = unqualified(expr.name);
  return !allocates(name.substr(0, name.size() - 1)) && std::ranges::find(others, name) == others.end();
}

std::optional<int64_t> literal_index(const Expr& expr) {
  int64_t index = 0;
  if (expr.kind != Expr::Kind::literal) return std::nullopt;
  const auto [end, error] = std::from_chars(expr.name.data(), expr.name.data() + expr.name.size(), index);
  return error == std::errc() && end == expr.name.data() + expr.name.size() ? std::optional(index) : std::nullopt;
}

std::optional<AccessPath> find_part(std::optional<AccessPath> path, AccessPath::Step step) {
  if (path) path->steps.push_back(std::move(step));
  return path;
}

/// Whether an object of that type may be reached from others, too.
bool is_shared(std::string_view type) {
  return type.starts_with("std::shared_ptr<") || type.starts_with("std::weak_ptr<") || type.ends_with("*");
}

/// Whether `expr` is a member of `this`, or a part of one.
bool is_own_member(const Expr& expr) {
  if (expr.kind == Expr::Kind::field && expr.operands.empty()) return true;
  return (expr.kind == Expr::Kind::field || (expr.kind == Expr::Kind::op && expr.name == "[]")) &&
         (expr.operands[0].kind == Expr::Kind::self || is_own_member(expr.operands[0]));
}

/// The part of `value` that `step` leads to; null if `value` does not track that part separately.
const Value* find_part(const Value& value, const AccessPath::Step& step) {
  if (const auto member = value.members.find(step.member); !step.member.empty() && member != value.members.end())
    return &member->second;
  const std::optional<int64_t> index = step.member == "first"    ? std::optional<int64_t>(0)
                                       : step.member == "second" ? std::optional<int64_t>(1)
                                                                 : step.index;
  if (value.kind == Value::Kind::list && !value.elements.empty()) return &value.elements[0];
  if (value.kind != Value::Kind::tuple || !index || *index < 0) return nullptr;
  return static_cast<size_t>(*index) < value.elements.size() ? &value.elements[static_cast<size_t>(*index)] : nullptr;
}

/// The value at `steps`, from step `from` on, in `value`. Derived from the C++ type of `expr`, which names it, if
/// nothing else is known.
Value part_at(const Value& value, const std::vector<AccessPath::Step>& steps, size_t from, const Expr& expr) {
  if (from == steps.size() || value.kind == Value::Kind::failed || value.kind == Value::Kind::mismatch ||
      value.kind == Value::Kind::unknown)
    return value;
  if (const Value* part = find_part(value, steps[from])) return part_at(*part, steps, from + 1, expr);
  if (value.kind == Value::Kind::tuple && steps[from].member.empty() && !steps[from].index) {
    Value any;
    for (const Value& element : value.elements) any = join(any, part_at(element, steps, from + 1, expr));
    return any;
  }
  if (!value.is_invariant() && (value.kind != Value::Kind::object || steps[from].member.empty())) {
    Value unknown;
    unknown.kind = Value::Kind::mismatch;
    unknown.text = "a part of a value that is " + describe(value);
    return unknown;
  }
  if (value.is_built && !steps[from].member.empty())
    return Value::unknown(steps[from].member + ", a member that is not set", expr.span);
  Value result = make_invariant(expr.type, true);
  set_parameters(result, value.parameters);
  set_storage(result, value.storage);
  return result;
}

/// Writes `value` at `steps`, from step `from` on, in `container`. Joins it with the old value unless `replaces`, or if
/// a step leads to several parts.
void put(Value& container, const std::vector<AccessPath::Step>& steps, size_t from, const Value& value, bool replaces) {
  if (from == steps.size()) {
    container = replaces ? value : join(container, value);
    return;
  }
  if (container.kind == Value::Kind::unknown) return;
  const AccessPath::Step& step = steps[from];
  if (container.kind == Value::Kind::tuple) {
    const Value* part = find_part(container, step);
    for (Value& element : container.elements)
      if (!part || part == &element) put(element, steps, from + 1, value, replaces && part);
    return;
  }
  if (container.kind == Value::Kind::list) return put(container.elements[0], steps, from + 1, value, false);
  if (step.member.empty()) {  // an opaque container, known only to be the same on every rank
    container.gradient |= value.carries_gradient();
    container.storage = merged(get_storage(container), get_storage(value));
    container.parameters.merge(get_parameters(value));
    if (!value.is_invariant())
      container = join(value, container.kind == Value::Kind::nothing ? object_value() : container);
    return;
  }
  if (container.kind == Value::Kind::nothing) container = object_value();
  const auto [member, is_new] = container.members.try_emplace(step.member);
  if (is_new && (from + 1 < steps.size() || !replaces)) {
    member->second = object_value();
    member->second.is_built = container.is_built;
  }
  put(member->second, steps, from + 1, value, replaces);
}

/// `target`, a tensor or an object that may hold it, is also computed from `value`.
void add_parameters(const Value& value, Value& target) {
  if (value.kind == Value::Kind::tensor) target.is_fixed &= value.is_fixed;
  target.is_inside |= find_inside(value) != nullptr;
  target.parameters.merge(get_parameters(value));
}

const char* const kOutOfPlace =
    "write it out of place, as in x = x * 1.5 or x = x.masked_fill(…): the runtime keeps values that it passes on and "
    "reruns units, and autograd needs the old values";

}  // namespace

std::optional<AccessPath> Interpreter::get_access_path(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::local: {
      Variable* variable = find_variable(expr);
      if (!variable || variable->is_foreign || variable->value.kind == Value::Kind::module) return std::nullopt;
      return variable->refers_to ? variable->refers_to : AccessPath{frame_, expr.variable, {}};
    }
    case Expr::Kind::self: {
      const auto object = frame_->variables.find(0);
      if (object == frame_->variables.end()) return std::nullopt;
      return object->second.refers_to ? object->second.refers_to : AccessPath{frame_, 0, {}};
    }
    case Expr::Kind::field: {
      Expr self;
      self.kind = Expr::Kind::self;
      std::optional<AccessPath> path =
          find_part(get_access_path(expr.operands.empty() ? self : expr.operands[0]), {expr.name});
      const std::string_view holder = expr.operands.empty() ? std::string_view() : expr.operands[0].type;
      if (path) path->through_reference |= expr.is_reference || is_shared(holder);
      return path;
    }
    case Expr::Kind::cast:
      return expr.is_lvalue ? get_access_path(expr.operands[0]) : std::nullopt;
    case Expr::Kind::op:
      if (expr.name == "=" && expr.is_lvalue) return get_access_path(expr.operands[0]);
      if (expr.name == "," && !expr.callee) return get_access_path(expr.operands[1]);
      if (expr.name == "*" && expr.operands.size() == 1 && expr.operands[0].type.starts_with("std::optional"))
        return get_access_path(expr.operands[0]);
      if (expr.name == "[]" && expr.is_lvalue && !expr.operands[0].type.ends_with("*"))
        return find_part(get_access_path(expr.operands[0]), {"", literal_index(expr.operands[1])});
      return std::nullopt;
    case Expr::Kind::call:
      if (expr.operands.size() != 1 || !expr.callee || expr.callee->home != Callee::Home::standard) return std::nullopt;
      if (expr.name == "std::move" || expr.name == "std::forward" || expr.name == "std::as_const")
        return get_access_path(expr.operands[0]);
      return expr.name == "std::get" ? find_part(get_access_path(expr.operands[0]), {}) : std::nullopt;
    case Expr::Kind::method:
      if (!expr.is_lvalue || !expr.callee || expr.callee->home != Callee::Home::standard) return std::nullopt;
      if (expr.name == "value") return get_access_path(expr.operands[0]);
      if (expr.name == "at" || expr.name == "front" || expr.name == "back")
        return find_part(get_access_path(expr.operands[0]), {});
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

Value Interpreter::read(const AccessPath& path, const Expr& expr) {
  return part_at(find_root(path).value, path.steps, 0, expr);
}

void Interpreter::write(const AccessPath& path, Value value, SourceSpan where) {
  Variable& root = find_root(path);
  if (path.through_reference)
    return report(where, "unproven: a write through a reference member of an object",
                  "change the variable itself, or return the value");
  if (root.is_static)
    return report(where, "unproven: a static variable keeps its value between calls",
                  "make it a constant outside of the method, or recompute it");
  if (root.is_local_count && path.steps.empty())
    return report(where, "a variable that auto declares as a tp-local count changes: the count's type is constant",
                  "declare " + *root.name + " as int64_t");
  if (root.is_referred && !value.has_failed())
    value = fail(where, "unproven: " + *root.name + " changes after a reference that may alias it was bound",
                 "bind the reference to the variable itself, or copy the value");
  if (root.is_captured && !value.has_failed() && !value.is_invariant())
    value = fail(where,
                 "unproven: " + *root.name + ", which " + (root.is_captured_by_lambda ? "a lambda" : "another object") +
                     " refers to, becomes " + describe(value),
                 root.is_captured_by_lambda ? "pass it to the lambda, or capture it by copy"
                                            : "assign the new value to a separate variable");
  // A lambda that reads the variable knows no parameters.
  if (sequence_ && root.is_captured) use_parameters(where, get_parameters(value), /*is_partial=*/false);
  put(root.value, path.steps, 0, value, true);
  root.version = ++versions_;
  if (path.steps.empty()) root.was_moved = false;
}

Value Interpreter::evaluate_assignment(const Expr& expr) {
  const Expr &target = expr.operands[0], &source = expr.operands[1];
  const std::string operation = "op " + expr.name.substr(0, expr.name.size() - 1);
  const bool is_tie = target.kind == Expr::Kind::call && target.name == "std::tie";
  for (const Expr* at = &target; at; at = at->operands.empty() ? nullptr : at->operands.data())
    if (at->takes_const_away) return evaluate(*at);
  Value value = evaluate(source);
  if (expr.name == "=" && is_tie) {
    assign_each(target, value);
    return value;
  }
  const bool is_tensor = target.type == "at::Tensor";
  if (expr.name == "=" && (!is_tensor || target.is_lvalue)) {
    assign(target, &source, value);
    return value;
  }
  const Value before = evaluate(target);
  if (value.has_failed() || before.has_failed()) return Value::failure();
  if (!is_tensor) {
    value = apply(operation, find_rule(operation), expr, {&target, &source}, {before, value});
    value.count = converted(std::move(value.count), target.type);
    assign(target, nullptr, value);
    return value;
  }
  if (expr.name == "=") return copy_into(expr, target, before, value);
  const Value after = apply(operation, find_rule(operation), expr, {&target, &source}, {before, value});
  change_in_place(expr, target, before, after);
  return after;
}

Value Interpreter::copy_into(const Expr& expr, const Expr& target, const Value& before, const Value& value) {
  if (value.kind == Value::Kind::tensor &&
      (value.type != before.type || value.outer != before.outer || value.is_gathered != before.is_gathered ||
       (is_split(value) && from_end(value) != from_end(before))))
    return fail(expr.span, "a value that is " + describe(value) + " is written into one that is " + describe(before),
                kOutOfPlace);
  if (!value.is_invariant() && value.kind != Value::Kind::tensor) return unproven(expr, value, "this write");
  if (before.type == kPartial && value.kind != Value::Kind::tensor)
    return fail(expr.span, "a number is written into a partial sum over tp: it would count once for every rank",
                kOutOfPlace);
  Value after = before;
  after.gradient |= value.carries_gradient();
  add_parameters(value, after);
  change_in_place(expr, target, before, after);
  return after;
}

void Interpreter::assign_each(const Expr& targets, const Value& value) {
  for (size_t i = 0; i < targets.operands.size(); ++i) {
    const Expr& target = targets.operands[i];
    if (target.kind == Expr::Kind::global && target.name == "std::ignore") continue;
    const Value* part = find_part(value, {"", static_cast<int64_t>(i)});
    if (const Value* unknown = part ? nullptr : find_unknown(value)) {
      assign(target, nullptr, *unknown);
      continue;
    }
    Value element = part ? *part : value.is_invariant() ? make_invariant(target.type, true) : Value::failure();
    if (!part && value.is_invariant()) set_storage(element, value.storage);
    if (!part && !value.is_invariant() && !value.has_failed())
      report(targets.span, "unproven: unpacking a value that is " + describe(value), "");
    assign(target, nullptr, element);
  }
}

void Interpreter::assign(const Expr& target, const Expr* source, const Value& value) {
  if (target.kind == Expr::Kind::unknown) return void(evaluate(target));
  if (const std::optional<AccessPath> path = get_access_path(target)) {
    if (frame_->function->is_const && !path->through_reference && is_own_member(target))
      return report(target.span, "unproven: a const method changes a mutable member",
                    "declare the method without const");
    const bool is_output =
        target.kind == Expr::Kind::field && !target.operands.empty() && target.operands[0].type == "modular::Outputs";
    return write(*path, is_output && source ? as_output(target.name, *source, value) : value, target.span);
  }
  if (frame_->outside_of_lambda && target.kind == Expr::Kind::local && !find_variable(target))
    return report(target.span, "unproven: a lambda assigns to its parameter " + target.name,
                  "assign the value to a new variable, and return it");
  const bool is_pointed_at = target.kind == Expr::Kind::op && target.name == "*";
  if (value.has_failed() || (is_pointed_at && evaluate(target.operands[0]).has_failed())) return;
  const bool is_member = is_own_member(target);
  const Value* unknown = find_unknown(value);
  if (unknown && !(is_entry_ && is_member))
    return void(reject_unknown(*unknown, target.span, "it is kept outside of local variables"));
  if (!unknown && !value.is_invariant())
    return report(target.span, "unproven: a value that is " + describe(value) + " is kept outside of local variables",
                  "return it, or keep it in a local variable");
  if (is_pointed_at && target.operands[0].kind == Expr::Kind::local)
    return report(target.span, "unproven: a write through the pointer " + target.operands[0].name,
                  "change the value by its name, its index, or a reference that is bound to it");
  if (!is_member && !is_entry_)
    return report(target.span, "unproven: an assignment to something other than a variable or a member",
                  "assign to the variable or the member by its name");
  // Methods that no entry reaches are free to keep state.
  if (is_entry_ || value.kind == Value::Kind::module)
    report(target.span, "a method changes state that outlives the call: the next call would compute something else",
           "return the value, or keep it in a local variable");
}

std::string Interpreter::why_not_in_place(const Expr& target, const Value& value) const {
  const std::string name = target.kind == Expr::Kind::local ? target.name : "this tensor";
  if (!value.storage.is_known || value.storage.allocated_by.empty())
    return name + " is changed in place, and may share its memory with an argument or with a module's tensor";
  const auto aliases = [&](const Storage& other) {
    return std::ranges::any_of(value.storage.allocated_by, [&](uint32_t allocation) {
      return std::ranges::binary_search(other.allocated_by, allocation);
    });
  };
  const Expr* at = &target;
  while (at->kind != Expr::Kind::local && !at->operands.empty()) at = &at->operands[0];
  const Frame* frame = frame_;
  uint32_t changed = at->kind == Expr::Kind::local ? at->variable : 0;
  if (const auto variable = frame_->variables.find(changed);
      variable != frame_->variables.end() && variable->second.refers_to)
    frame = variable->second.refers_to->frame, changed = variable->second.refers_to->variable;
  for (const Frame* active = frame_; active; active = active->caller)
    for (const auto& [number, variable] : active->variables) {
      if ((active == frame && number == changed) || variable.refers_to || variable.was_moved) continue;
      if (aliases(get_storage(variable.value)))
        return name + " is changed in place, and " + *variable.name + " may be the same tensor or share its memory";
    }
  if (std::ranges::any_of(value.storage.allocated_by,
                          [&](uint32_t allocation) { return saved_for_backward_.contains(allocation); }))
    return name + " is changed in place after a value was computed from it whose gradient may need the old value";
  return "";
}

void Interpreter::change_in_place(const Expr& expr, const Expr& target, const Value& before, const Value& after) {
  if (after.has_failed()) return;
  for (const Value* value : {&before, &after})
    if (const Value* unknown = find_unknown(*value))
      return void(reject_unknown(*unknown, expr.span, "it changes a tensor in place"));
  if (const std::string why = why_not_in_place(target, before); !why.empty())
    return report(expr.span, why, kOutOfPlace);
  if (after.kind != Value::Kind::tensor || after.type != before.type)
    return report(expr.span, "a value that is " + describe(before) + " would become " + describe(after) + " in place",
                  kOutOfPlace);
  if (after.gradient && saves_result(expr))
    saved_for_backward_.insert(before.storage.allocated_by.begin(), before.storage.allocated_by.end());
  if (const std::optional<AccessPath> path = get_access_path(target)) {
    Value changed = after;
    changed.storage = before.storage;
    return write(*path, std::move(changed), expr.span);
  }
  // A view of a variable: the variable sees the change too.
  const Expr* at = &target;
  while (at->kind != Expr::Kind::local && !at->operands.empty()) at = &at->operands[0];
  if (at->kind != Expr::Kind::local) return;
  if (const std::optional<AccessPath> path = get_access_path(*at)) {
    Value viewed = read(*path, *at);
    if (!after.gradient && !sequence_ && viewed.later_keys == LaterKeys::any) return;
    if (viewed.kind == Value::Kind::tensor) viewed.gradient |= after.gradient;
    viewed.later_keys = LaterKeys::any;
    if (sequence_) add_parameters(after, viewed);
    write(*path, std::move(viewed), expr.span);
  }
}

void Interpreter::refer_to(const Expr& expr, std::string_view type, bool keeps) {
  if (expr.kind == Expr::Kind::lambda) return;  // its captures are known
  // A list of sizes does not refer to the tensor that it was read from.
  if (expr.type == "at::Tensor" && type.find("at::Tensor") == std::string::npos && !keeps) return;
  if (const std::optional<AccessPath> path = get_access_path(expr)) {
    Variable& root = find_root(*path);
    (keeps ? root.is_referred : root.is_captured) = true;
    return;
  }
  const bool is_self_contained = !expr.is_lvalue && expr.kind != Expr::Kind::list && !may_refer(expr.type);
  if (is_self_contained) return;
  for (const Expr& operand : expr.operands) refer_to(operand, type, keeps);
}

bool Interpreter::may_refer(std::string_view type) const {
  static constexpr std::string_view kinds[] = {
      "*", "&", "iterator", "c10::ArrayRef", "c10::IListRef", "std::span", "std::reference_wrapper"};
  if (type.find('<') != std::string::npos || type.ends_with("*"))
    return std::ranges::any_of(kinds, [&](std::string_view kind) { return type.find(kind) != std::string_view::npos; });
  const Class* owner = class_of_type(family_, type);
  return owner && std::ranges::any_of(owner->fields, [&](const Field& field) {
           return field.type.find_first_of("&*") != std::string::npos || may_refer(field.canonical);
         });
}

void Interpreter::forget_changed(const Expr& expr, const std::vector<const Expr*>& operands,
                                 const std::vector<Value>& values, const Value* unknown) {
  if (!expr.callee) return;
  std::vector<size_t> changed = expr.callee->changes;
  // Mutating methods such as push_back change the container; accessors that return a reference do not.
  static const std::set<std::string_view> accessors = {"at", "front", "back", "value", "get", "top", "operator[]"};
  const bool of_object = expr.kind == Expr::Kind::method && expr.callee->changes_object && !expr.callee->of_module &&
                         expr.callee->home != Callee::Home::torch;
  if (of_object && !(expr.is_lvalue && accessors.contains(expr.name))) changed.push_back(0);
  Storage given;
  given.is_known = true;
  for (const Value& value : values) given = merged(given, get_storage(value));
  const std::set<std::string> parameters = get_parameters(values);
  for (const size_t i : changed) {
    if (i >= operands.size()) continue;
    Value value = unknown ? *unknown : make_invariant(operands[i]->type, true);
    if (!unknown) set_storage(value, given);
    set_parameters(value, parameters);
    if (operands[i]->type == "at::Tensor") {
      change_in_place(expr, *operands[i], values[i], value);
    } else if (const std::optional<AccessPath> path = get_access_path(*operands[i])) {
      write(*path, std::move(value), expr.span);
    } else if (operands[i]->is_lvalue && values[i].kind != Value::Kind::module) {
      assign(*operands[i], nullptr, value);
    }
  }
}

void Interpreter::give_storage(const std::string& name, const Expr& expr, const std::vector<Value>& values,
                               Value& result) {
  const bool own = allocates(name);
  Storage storage;
  storage.is_known = true;
  if (own) {
    const uint32_t allocation =
        allocations_.try_emplace({frame_->context, &expr}, static_cast<uint32_t>(allocations_.size() + 1))
            .first->second;
    storage.allocated_by = {allocation};
    saved_for_backward_.erase(allocation);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const Storage given = get_storage(values[i]);
    if (!own) storage = merged(storage, given);
    if (!result.carries_gradient() || is_view_or_query(name) || (i == 0 && changes_first(expr))) continue;
    saved_for_backward_.insert(given.allocated_by.begin(), given.allocated_by.end());
  }
  set_storage(result, storage);
}

}  // namespace modgen
