// Statements: order, scopes, branches and loops, and the regions that a pipeline's stages run.
#include <algorithm>
#include <utility>

#include "generator/weave/interpreter.h"

namespace modgen {

void Interpreter::execute_body(const std::vector<Stmt>& statements, const std::optional<Walk>& walk) {
  frame_->scopes.emplace_back();
  for (size_t i = 0; i < statements.size() && !frame_->ended; ++i) {
    const Region before = region_;
    if (walk && has_pipeline_) {
      const bool feeds = std::find(walk->feed.begin(), walk->feed.end(), i) != walk->feed.end();
      region_ = feeds                          ? Region::first_stage
                : i == walk->loop              ? Region::split_stage
                : walk->cut && i >= *walk->cut ? Region::last_stage
                                               : before;
    }
    if (walk && i == walk->loop) frame_->walked_value = frame_->variables[walk->carried].value;
    execute(statements[i]);
    if (walk && has_pipeline_ && !(walk->cut && i >= *walk->cut)) region_ = before;
    if (has_towers_) {
      frame_->reading.is_cut = frame_->walking_call != nullptr;
      if (frame_->reading.first.at) frame_->fed = frame_->variables;
      frame_->reads.push_back(std::exchange(frame_->reading, {}));
    }
    if (frame_->walking_call) hand_on(statements[i]);
  }
  frame_->scopes.pop_back();
}

void Interpreter::hand_on(const Stmt& statement) {
  const Expr* const walking = frame_->walking_call;
  frame_->walking_call = nullptr;
  region_ = Region::last_stage;
  if (!has_pipeline_) return;
  const std::string& type = frame_->function->return_type;
  const bool can_return = type == "Tensor" || type == "at::Tensor" || type == "Outputs";
  std::string carried;
  if (statement.kind == Stmt::Kind::declare && statement.names.size() == 1 && &statement.exprs[0] == walking) {
    carried = statement.names[0];
  } else if (statement.kind == Stmt::Kind::expression && is_assignment(statement.exprs[0]) &&
             statement.exprs[0].name == "=" && statement.exprs[0].operands[0].kind == Expr::Kind::local &&
             &statement.exprs[0].operands[1] == walking) {
    carried = statement.exprs[0].operands[0].name;
  } else if (statement.kind == Stmt::Kind::ret && &statement.exprs[0] == walking) {
    frame_->pass_ons.push_back({&statement, ""});
    return;
  }
  if (carried.empty() || !can_return) {
    report(walking->span, "what this call returns is handed to the next pipeline stage, but it is used at once",
           carried.empty() ? "give it a name in a statement of its own, in the method's outermost block"
                           : "return a Tensor or Outputs from this method");
    return;
  }
  frame_->pass_ons.push_back({&statement, carried});
}

void Interpreter::execute_block(const std::vector<Stmt>& statements) {
  Frame& frame = *frame_;
  frame.scopes.emplace_back();
  for (const Stmt& statement : statements) {
    if (frame.ended) break;
    execute(statement);
    if (frame.walking_call) {
      report(frame.walking_call->span,
             has_towers_ ? "a call in which the model is cut between its towers stands inside of another statement"
                         : "a call that walks the PP_SPLIT list stands inside of another statement",
             "call it in the method's outermost block");
      frame.walking_call = nullptr;
    }
  }
  end_scope();
}

void Interpreter::end_scope() {
  for (auto& [name, hidden] : frame_->scopes.back()) {
    if (hidden)
      frame_->variables[name] = *hidden;
    else
      frame_->variables.erase(name);
  }
  frame_->scopes.pop_back();
}

void Interpreter::declare(const std::string& name, Value value) {
  auto& scope = frame_->scopes.back();
  const auto before = frame_->variables.find(name);
  if (!scope.contains(name))
    scope[name] = before == frame_->variables.end() ? std::nullopt : std::optional(before->second);
  frame_->variables[name] = {std::move(value), ++versions_};
}

void Interpreter::declare_names(const std::vector<std::string>& names, const Value& value, SourceSpan where) {
  if (names.size() == 1) return declare(names[0], value);
  for (size_t i = 0; i < names.size(); ++i) {
    if (value.kind == Value::Kind::tuple && i < value.elements.size())
      declare(names[i], value.elements[i]);
    else if (value.kind == Value::Kind::list || value.is_invariant())
      declare(names[i], value.kind == Value::Kind::list ? value.elements[0] : invariant_of("at::Tensor", true));
    else
      declare(names[i], value.kind == Value::Kind::failed
                            ? value
                            : fail(where, "unproven: taking apart a value that is " + describe(value), ""));
  }
}

bool Interpreter::gives_up(SourceSpan where) {
  // The largest family of the catalogue runs some thousands.
  constexpr int kMostStatements = 200'000;
  if (statements_ == kMostStatements)
    report(where, "unproven: loops within loops, or calls within calls, run too many statements to follow",
           "nest them less deeply");
  return statements_++ >= kMostStatements;
}

void Interpreter::execute(const Stmt& statement) {
  if (gives_up(statement.span)) return;
  switch (statement.kind) {
    case Stmt::Kind::declare: {
      Value value;
      if (statement.exprs.empty()) {
        if (statement.type.find("Tensor") == std::string::npos) value = object_value();
      } else {
        value = evaluate(statement.exprs[0]);
      }
      return declare_names(statement.names, value, statement.span);
    }
    case Stmt::Kind::expression:
      evaluate(statement.exprs[0]);
      if (statement.exprs[0].kind == Expr::Kind::other && statement.exprs[0].name == "throw") frame_->ended = true;
      return;
    case Stmt::Kind::ret:
      if (!statement.exprs.empty()) frame_->results.push_back(evaluate_result(statement.exprs[0]));
      frame_->ended = true;
      return;
    case Stmt::Kind::block:
      return execute_block(statement.then_body);
    case Stmt::Kind::branch:
      return execute_branch(statement);
    case Stmt::Kind::range_for:
    case Stmt::Kind::loop:
      return execute_loop(statement);
    case Stmt::Kind::other:
      for (const Expr& expr : statement.exprs) evaluate(expr);
      if (!statement.then_body.empty())
        report(statement.span, "unproven: there is no rule for this kind of statement", "use if, for or a range-for");
      return;
  }
}

Environment Interpreter::joined(const Environment& one, const Environment& other) {
  Environment result = one;
  for (auto& [name, variable] : result) {
    const auto theirs = other.find(name);
    if (theirs == other.end()) continue;
    if (variable.version != theirs->second.version) variable.version = ++versions_;
    variable.value = join(variable.value, theirs->second.value);
  }
  return result;
}

void Interpreter::execute_branch(const Stmt& statement) {
  evaluate_condition(statement.exprs[0]);
  Frame& frame = *frame_;
  const Environment before = frame.variables;
  execute_block(statement.then_body);
  const Environment then = frame.variables;
  const bool then_ended = frame.ended;
  frame.variables = before;
  frame.ended = false;
  execute_block(statement.else_body);
  const bool else_ended = frame.ended;
  frame.ended = then_ended && else_ended;
  if (else_ended)
    frame.variables = then;
  else if (!then_ended)
    frame.variables = joined(then, frame.variables);
}

void Interpreter::evaluate_condition(const Expr& condition) {
  const Value value = evaluate(condition);
  if (value.has_failed() || value.is_invariant()) return;
  report(condition.span, "a condition on a value that is " + describe(value) + ": ranks would take different paths",
         "");
}

void Interpreter::execute_loop(const Stmt& statement) {
  Frame& frame = *frame_;
  Value element;
  if (statement.kind == Stmt::Kind::range_for) element = element_of(statement.exprs[0]);
  const Environment before = frame.variables;
  Environment entry = before;
  for (int round = 0; round < 4 && !gives_up(statement.span); ++round) {
    frame.variables = entry;
    if (statement.kind == Stmt::Kind::loop)
      for (const Expr& expr : statement.exprs) evaluate_condition(expr);
    frame.scopes.emplace_back();
    if (statement.kind == Stmt::Kind::range_for) declare_names(statement.names, element, statement.span);
    execute_block(statement.then_body);
    end_scope();
    frame.ended = false;  // also the loop may run no round at all
    entry = joined(before, frame.variables);
  }
  frame.variables = entry;
}

Value Interpreter::element_of(const Expr& range) {
  const Expr& list =
      range.kind == Expr::Kind::op && range.name == "*" && range.operands.size() == 1 ? range.operands[0] : range;
  walked_list_ = &list;
  Value value = evaluate(list);
  walked_list_ = nullptr;
  if (value.kind == Value::Kind::module && value.node->kind == ModuleNode::Kind::list)
    return module_value(*value.node->children[0]);
  if (value.kind == Value::Kind::list) return value.elements[0];
  if (value.kind == Value::Kind::tuple) {
    Value element;
    for (const Value& each : value.elements) element = join(element, each);
    return element;
  }
  if (value.kind == Value::Kind::failed) return value;
  if (value.is_invariant()) return value.kind == Value::Kind::tensor ? value : object_value();
  return fail(range.span, "unproven: a loop over a value that is " + describe(value), "");
}

Value Interpreter::evaluate_result(const Expr& expr) {
  if (frame_->function->return_type != "Outputs" ||
      (expr.kind != Expr::Kind::list && expr.kind != Expr::Kind::construct))
    return evaluate(expr);
  static constexpr const char* names[] = {"logits", "loss_sum", "token_count", "carried"};
  const Expr& list =
      expr.kind == Expr::Kind::construct && expr.operands.size() == 1 && expr.operands[0].kind == Expr::Kind::list
          ? expr.operands[0]
          : expr;
  Value outputs = object_value();
  for (size_t i = 0; i < list.operands.size() && i < 4; ++i)
    outputs.members[names[i]] = as_output(names[i], list.operands[i], evaluate(list.operands[i]));
  return outputs;
}

Value Interpreter::as_output(const std::string& name, const Expr& expr, const Value& value) {
  if (value.has_failed() || value.is_invariant()) return value;
  const bool split_last = value.kind == Value::Kind::tensor && value.type.kind == ShardType::Kind::sharded &&
                          (value.type.dim == -1 || (value.rank && value.type.dim == *value.rank - 1));
  if (name == "logits" && split_last) {
    place(Call::gather, expr);
    return Value::tensor(kInvariant, value.gradient, value.rank);
  }
  return fail(expr.span, "output " + name + " is " + describe(value), "outputs have to be whole on every tp rank");
}

}  // namespace modgen
