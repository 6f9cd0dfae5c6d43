// Operations, by the rule table, and the sums over tp that their operands need.
#include <algorithm>
#include <set>

#include "generator/weave/interpreter.h"
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

/// Marks a view of `viewed`, or a list of views, like it.
void mark_reduced(const Value& viewed, Value& view) {
  view.reduces |= viewed.reduces;
  for (Value& element : view.elements) mark_reduced(viewed, element);
}

/// Whether the operation would take values that are the same for all positions for those of a rank's positions, or keep
/// them in the cache as a forward's.
bool acts_on_context(const std::string& name, const Expr& expr) {
  Operation op;
  op.name = name;
  op.expr = &expr;
  return looks_along(op);
}

/// Whether `expr` asks data-parallel ranks for their rows.
bool gathers_rows(const Expr& expr) { return expr.callee && expr.callee->name.starts_with("modular::dp::"); }

/// Whether `expr` compares rows with those that the runtime gathers for sentence embeddings.
bool compares_sentences(const Expr& expr) {
  static const std::set<std::string_view> names = {"modular::sentence_loss", "modular::sentence_count",
                                                   "modular::sentence_outputs"};
  return expr.callee && names.contains(expr.callee->name);
}

/// Whether `expr` is an optional that may hold a tensor: not `{}`.
bool is_optional_tensor(const Expr& expr) {
  const bool is_made = expr.kind == Expr::Kind::construct || expr.kind == Expr::Kind::list;
  return expr.type.starts_with("std::optional<at::Tensor>") && !(is_made && expr.operands.empty());
}

/// The tensor that an optional holds, if it is only known that it is the same on every rank.
Value find_held(const Value& optional) {
  Value held = Value::tensor(kInvariant, true, std::nullopt);
  set_storage(held, get_storage(optional));
  return held;
}

/// The layer nn::Dropout among the operands: of its own call, or of attention; null if there is none.
const ModuleNode* find_dropout(const std::vector<Value>& values) {
  const auto found = std::ranges::find_if(values, [](const Value& value) {
    return value.kind == Value::Kind::module && value.node->library_class == "modular::nn::Dropout";
  });
  return found == values.end() ? nullptr : found->node;
}

}  // namespace

Value Interpreter::fail_to_draw(const Expr& expr, const std::string& name) {
  return fail(expr.span,
              "random numbers for all rows at once, by " + name.substr(name.starts_with(".") ? 1 : 0) +
                  ": ranks and micro-batches would draw others",
              "use nn::Dropout, on values whose first dimension is the rows of the batch");
}

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
  if (std::optional<Value> unknown = meet_unknown(expr, operands, values)) return *unknown;
  for (const Value& value : values) {
    if (value.kind == Value::Kind::module && value.node->holds_parameters())
      return fail(expr.span, "unproven: the parameters of a module are read outside of its methods",
                  "call the module, or one of its methods");
    if (value.is_invariant()) continue;
    const size_t begin = name.starts_with("op ") ? 3 : name.starts_with(".") ? 1 : 0;
    return unproven(expr, value, name.substr(begin));
  }
  if (axis_ == Axis::rows && is_random(name)) return fail_to_draw(expr, name);
  if (!is_known_function(expr)) return apply_unlisted(name, expr, operands, values);
  const bool gradient =
      std::any_of(values.begin(), values.end(), [](const Value& value) { return value.carries_gradient(); });
  note(expr, name, true, is_random(name) ? "every rank draws the same random numbers" : "");
  Value result = make_invariant(expr.type, gradient);
  Operation op;
  op.name = name;
  op.expr = &expr;
  op.operands = operands;
  op.values = values;
  give_shape(op, values, result);
  give_storage(name, expr, values, result);
  if (!changes_first(expr)) forget_changed(expr, operands, values);
  return result;
}

Value Interpreter::apply(const std::string& name, Rule rule, const Expr& expr, std::vector<const Expr*> operands,
                         std::vector<Value> values) {
  for (const Value& value : values)
    if (value.has_failed()) return Value::failure();
  for (size_t i = 0; i < values.size(); ++i)
    if (is_optional_tensor(*operands[i]) && values[i].kind == Value::Kind::object) values[i] = find_held(values[i]);
  // An element of a list is known even if another one is not.
  const bool takes_element = name == "op []" && !values[0].elements.empty() && values[1].kind != Value::Kind::unknown;
  const bool has_unknown = !takes_element && std::ranges::any_of(values, find_unknown);
  const bool has_open = std::any_of(values.begin(), values.end(), [](const Value& v) { return !v.summands.empty(); });
  if (has_open) {
    for (size_t i = 0; sums_.looking && i < values.size(); ++i)  // a later operand may have closed this sum
      if (!values[i].summands.empty() && operands[i]->kind == Expr::Kind::local) values[i] = evaluate(*operands[i]);
    Operation trial{.name = name, .expr = &expr, .operands = operands, .values = values};
    if (rule && !has_unknown) apply_rule(trial, rule);
    if (!rule || has_unknown || !trial.message.empty()) close_sums(expr, operands, values);
  }
  if (has_unknown) return *meet_unknown(expr, operands, values);
  if (sequence_) return apply_to_shares(name, rule, expr, std::move(operands), std::move(values));
  if (axis_ == Axis::positions && expr.callee && expr.callee->home == Callee::Home::torch &&
      std::ranges::any_of(values, covers_keys)) {
    Value result = apply_known(name, rule, expr, std::move(operands), std::move(values));
    if (result.has_failed() || keeps_keys(name, result)) return result;
    return fail(expr.span,
                "unproven: " + name.substr(name.starts_with(".") ? 1 : 0) +
                    " of a mask of keys, which covers more positions in each later forward: earlier positions, "
                    "whose values a cache keeps, had another result",
                "read it with functions of the contract, which know the cache, or count each position's own");
  }
  return apply_known(name, rule, expr, std::move(operands), std::move(values));
}

Value Interpreter::apply_known(const std::string& name, Rule rule, const Expr& expr, std::vector<const Expr*> operands,
                               std::vector<Value> values) {
  const bool invariant =
      std::all_of(values.begin(), values.end(), [](const Value& value) { return value.is_invariant(); });
  has_met_split_ |= std::ranges::any_of(values, is_split);
  const bool acts = axis_ == Axis::rows
                        ? gathers_rows(expr)
                        : (axis_ == Axis::context || axis_ == Axis::positions) && acts_on_context(name, expr);
  const bool is_read = axis_ != Axis::tp && (!invariant || acts);
  if (is_read) return read_operation(name, rule, expr, std::move(operands), std::move(values));
  if (!rule) return apply_unknown(name, expr, operands, values);
  const ModuleNode* dropout = find_dropout(values);
  if (dropout && axis_ == Axis::rows) return fail_to_draw(expr, name);
  if (dropout) check_dropout_stage(expr, *dropout);
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
  // A variable may hold the size, so that two views by it have the same sizes.
  if (name == ".size" && result.kind == Value::Kind::number && !result.count.is_known() && !result.count.is_share)
    result.count = new_size();
  serving_.merge(op.serving), separate_.merge(op.separate);
  const bool reduces = std::ranges::any_of(given, &Value::reduces) && std::ranges::none_of(given, is_partial);
  if (result.type == kPartial && op.call == Call::none && reduces) {
    op.call = Call::sum;
    result.type = kInvariant;
  }
  if (is_view_or_query(name) && !given.empty()) mark_reduced(given[0], result);
  if (op.call == Call::exit || op.call == Call::sum)
    open_sum(op, result);
  else if (result.type == kPartial)
    add_up(op, result);
  if (changes_first(expr) && (op.call != Call::none || std::ranges::count(op.entered, 0U) > 0))
    return fail(expr.span, "an in-place change of a value around which a parallel call would have to be inserted",
                "write it out of place, as in x = x + y");
  for (const size_t i : op.entered)
    if (is_optional_tensor(*op.operands[i]))
      return fail(op.operands[i]->span, "a parallel call would have to be inserted around an optional tensor",
                  "pass the tensor itself");
  if (op.call != Call::none) insert_call(op.call, expr);
  for (const size_t i : op.entered) insert_call(Call::enter, *op.operands[i]);
  note(expr, name, invariant && op.call == Call::none && op.entered.empty(), "");
  // An overload of that name may return something other than the tensor in the rule table.
  if (result.kind == Value::Kind::tensor && !expr.type.empty() && expr.type != "at::Tensor") {
    if (!result.is_invariant()) return unproven(expr, result, name);
    result = make_invariant(expr.type, gradient);
  }
  give_storage(name, expr, given, result);
  if (op.call != Call::none) set_storage(result, Storage());  // allocated by the runtime
  return result;
}

Value Interpreter::fail_to_compare(const Expr& expr, const std::string& task) {
  const std::string called = expr.callee->name.substr(std::string_view("modular::").size()),
                    place = " in an entry for " + task;
  if (compares_sentences(expr))
    return fail(expr.span, called + place + ", for which each rank and micro-batch would compare its own rows only",
                "make it an entry for sentence-embedding, or compute each row's loss by itself");
  return fail(expr.span,
              called + place +
                  ": it has the rows of one micro-batch, so that train.micro_batches would change "
                  "the result",
              "compute each row by itself; entries for contrastive-pairs and sentence-embedding compare rows");
}

Value Interpreter::read_operation(const std::string& name, Rule rule, const Expr& expr,
                                  std::vector<const Expr*> operands, std::vector<Value> values) {
  if (axis_ == Axis::rows && (gathers_rows(expr) || compares_sentences(expr))) {
    const KnownTask* task = find_task(family_, *root_.type);
    const bool compares = task && (task->compares_texts || (task->name == "contrastive-pairs" && gathers_rows(expr)));
    if (!compares) return fail_to_compare(expr, task ? task->name : "no task");
  }
  for (const Value& value : values)
    if (value.kind == Value::Kind::module && value.node->kind == ModuleNode::Kind::family &&
        value.node->holds_parameters())
      return unproven(expr, value, name);
  Operation op;
  op.name = name;
  op.axis = axis_;
  op.expr = &expr;
  op.operands = std::move(operands);
  op.values = std::move(values);
  const std::vector<Value> given = op.values;
  Value result = apply_in_reading(op, rule);
  if (!op.message.empty()) return fail(expr.span, op.message, op.advice);
  const bool is_pair = expr.type == "std::tuple<at::Tensor, at::Tensor>";
  if (result.kind == Value::Kind::tensor && !expr.type.empty() && expr.type != "at::Tensor") {
    if (result.is_invariant())
      result = make_invariant(expr.type, result.gradient);
    else if (is_pair)
      result = Value::tuple(result, 2);
    else
      return unproven(expr, result, name);
  }
  give_storage(name, expr, given, result);
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

}  // namespace modgen
