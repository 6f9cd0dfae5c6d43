// Branches, switches and loops: joins the states of control-flow paths where they meet.
#include <algorithm>
#include <utility>

#include "generator/weave/interpreter.h"

namespace modgen {
namespace {

/// Whether evaluating `expr` changes variables.
bool has_effects(const Expr& expr) {
  const bool counts = expr.kind == Expr::Kind::op && (expr.name == "++" || expr.name == "--");
  const bool changes = expr.callee && (!expr.callee->changes.empty() || expr.callee->changes_object);
  return changes_first(expr) || counts || changes || expr.kind == Expr::Kind::lambda ||
         std::any_of(expr.operands.begin(), expr.operands.end(), has_effects);
}

bool holds_same(const Environment& one, const Environment& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.value == b.second.value && a.second.was_moved == b.second.was_moved &&
           a.second.is_captured == b.second.is_captured && a.second.is_referred == b.second.is_referred;
  });
}

bool holds_same(const State& one, const State& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const auto& a, const auto& b) { return a.first == b.first && holds_same(a.second, b.second); });
}

}  // namespace

State Interpreter::state() const {
  State result = {{frame_, frame_->variables}};
  for (Frame* frame : frame_->reached) result.emplace_back(frame, frame->variables);
  return result;
}

void Interpreter::restore(State state) {
  for (auto& [frame, variables] : state) frame->variables = std::move(variables);
}

Environment Interpreter::joined(const Environment& one, const Environment& other) {
  Environment result;
  for (const auto& [number, variable] : one) {
    const auto theirs = other.find(number);
    if (theirs == other.end()) continue;  // out of scope where they meet
    Variable& both = result.emplace_hint(result.end(), number, variable)->second;
    if (variable.version != theirs->second.version) {
      both.version = ++versions_;
      both.value = join(variable.value, theirs->second.value);
    }
    both.is_captured |= theirs->second.is_captured;
    both.is_captured_by_lambda |= theirs->second.is_captured_by_lambda;
    both.is_referred |= theirs->second.is_referred;
    both.was_moved |= theirs->second.was_moved;
  }
  return result;
}

State Interpreter::joined(const State& one, const State& other) {
  State result;
  for (size_t i = 0; i < one.size() && i < other.size(); ++i)
    result.emplace_back(one[i].first, joined(one[i].second, other[i].second));
  return result;
}

State Interpreter::joined(std::vector<State> states) {
  State result = std::move(states.front());
  for (size_t i = 1; i < states.size(); ++i) result = joined(result, states[i]);
  return result;
}

void Interpreter::execute_branch(const Stmt& statement) {
  evaluate_condition(statement.exprs[0]);
  const State before = state();
  std::vector<State> ends;
  for (const auto* body : {&statement.then_body, &statement.else_body}) {
    restore(before);
    frame_->ended = false;
    execute_block(*body);
    if (!frame_->ended) ends.push_back(state());
  }
  frame_->ended = ends.empty();
  if (!ends.empty()) restore(joined(std::move(ends)));
}

void Interpreter::execute_switch(const Stmt& statement) {
  evaluate_condition(statement.exprs[0]);
  const State before = state();
  frame_->scopes.emplace_back();
  frame_->enclosing.push_back({.is_loop = false, .left = {}, .continued = {}});
  frame_->ended = true;  // nothing runs before the first label
  for (const Stmt& inner : statement.then_body) {
    if (inner.is_labelled) restore(frame_->ended ? before : joined(before, state()));
    if (inner.is_labelled) frame_->ended = false;
    if (!frame_->ended) execute_inner(inner);
  }
  std::vector<State> ends = std::move(frame_->enclosing.back().left);
  frame_->enclosing.pop_back();
  if (!frame_->ended) ends.push_back(state());
  if (!statement.has_default) ends.push_back(before);
  frame_->ended = ends.empty();
  if (!ends.empty()) restore(joined(std::move(ends)));
  end_scope();
}

void Interpreter::evaluate_condition(const Expr& condition) {
  const Value value = evaluate(condition);
  if (value.has_failed() || value.is_invariant()) return;
  if (const Value* unknown = find_unknown(value))
    return void(reject_unknown(*unknown, condition.span, "it decides which operations run"));
  report(condition.span, "a condition on a value that is " + describe(value) + ": ranks would take different paths",
         axis_ == Axis::tp ? ""
                           : "decide by values that are the same for all of them, or for each by itself: torch::where");
}

Value Interpreter::evaluate_conditionally(const Expr& expr) {
  if (!has_effects(expr)) return evaluate(expr);
  const State before = state();
  Value result = evaluate(expr);
  restore(joined(before, state()));
  return result;
}

void Interpreter::execute_loop(const Stmt& statement) {
  Frame& frame = *frame_;
  const bool is_range = statement.kind == Stmt::Kind::range_for;
  Value element;
  std::optional<AccessPath> elements;
  if (is_range) {
    element = get_element(statement.exprs[0]);
    if (statement.binding != Binding::value && element.kind != Value::Kind::module)
      elements = get_access_path(statement.exprs[0]);
    if (elements) elements->steps.push_back({});
    if (statement.binding != Binding::value && !elements && element.kind != Value::Kind::module &&
        statement.exprs[0].is_lvalue)
      refer_to(statement.exprs[0], statement.exprs[0].type, true);
  }
  const Expr* const condition = !is_range && !statement.exprs.empty() ? &statement.exprs[0] : nullptr;
  const bool never_ends =
      !is_range && (!condition || (condition->kind == Expr::Kind::literal && condition->name == "true"));
  const State before = state();
  State entry = before;
  std::vector<State> exits;
  // Joins only lose information, so a few iterations reach the fixed point.
  constexpr int kMostRounds = 64;
  for (int round = 0; !exceeds_limit(statement.span); ++round) {
    restore(entry);
    frame.ended = false;
    exits.clear();
    frame.enclosing.emplace_back();
    if (condition && !statement.body_first) evaluate_condition(*condition);
    if (!statement.body_first && !never_ends) exits.push_back(state());
    frame.scopes.emplace_back();
    // Earlier iterations may have changed the elements of the range.
    if (is_range && !elements && get_access_path(statement.exprs[0])) element = get_element(statement.exprs[0]);
    if (is_range) declare_names(statement, element, elements);
    execute_block(statement.then_body);
    Enclosing rounds = std::move(frame.enclosing.back());
    frame.enclosing.pop_back();
    if (!frame.ended) rounds.continued.push_back(state());
    const bool iterates = !rounds.continued.empty();
    if (iterates) {
      restore(joined(std::move(rounds.continued)));
      frame.ended = false;
      for (const Stmt& step : statement.else_body) execute_inner(step);
      if (condition && statement.body_first) evaluate_condition(*condition);
      if (statement.body_first && !never_ends) exits.push_back(state());
    }
    end_scope();
    std::move(rounds.left.begin(), rounds.left.end(), std::back_inserter(exits));
    if (!iterates) break;
    State next = joined(before, state());
    if (holds_same(next, entry)) break;
    if (round == kMostRounds) {
      report(statement.span, "unproven: the values of this loop's variables do not converge",
             "write it as several loops");
      break;
    }
    entry = std::move(next);
  }
  frame.ended = exits.empty();
  if (!exits.empty()) restore(joined(std::move(exits)));
}

void Interpreter::jump(const Stmt& statement) {
  std::vector<Enclosing>& enclosing = frame_->enclosing;
  frame_->ended = true;
  if (statement.kind == Stmt::Kind::leave) {
    if (!enclosing.empty()) enclosing.back().left.push_back(state());
    return;
  }
  const auto loop =
      std::find_if(enclosing.rbegin(), enclosing.rend(), [](const Enclosing& construct) { return construct.is_loop; });
  if (loop != enclosing.rend()) loop->continued.push_back(state());
}

Value Interpreter::get_element(const Expr& range) {
  const Expr& list =
      range.kind == Expr::Kind::op && range.name == "*" && range.operands.size() == 1 ? range.operands[0] : range;
  traversed_list_ = &list;
  Value value = evaluate(list);
  traversed_list_ = nullptr;
  if (value.kind == Value::Kind::module && value.node->kind == ModuleNode::Kind::list)
    return module_value(*value.node->children[0]);
  if (value.kind == Value::Kind::list) return value.elements[0];
  if (value.kind == Value::Kind::tuple) {
    Value element;
    for (const Value& each : value.elements) element = join(element, each);
    return element;
  }
  if (value.kind == Value::Kind::failed) return value;
  if (value.kind == Value::Kind::unknown) return reject_unknown(value, range.span, "it decides which operations run");
  if (!value.is_invariant()) return fail(range.span, "unproven: a loop over a value that is " + describe(value), "");
  if (value.kind == Value::Kind::tensor) return value;
  Value element = object_value();
  element.is_inside = value.is_inside;
  set_storage(element, value.storage);
  return element;
}

}  // namespace modgen
