// Statements: order, scopes and declarations, and the regions of a method that each pipeline stage runs.
#include <algorithm>
#include <utility>

#include "generator/weave/interpreter.h"
#include "generator/weave/rules/readings.h"

namespace modgen {
namespace {

/// Whether the value of `expr` may depend on the object or on the call.
bool reads_variable(const Expr& expr) {
  return expr.kind == Expr::Kind::local || expr.kind == Expr::Kind::field || expr.kind == Expr::Kind::self ||
         expr.kind == Expr::Kind::lambda || std::ranges::any_of(expr.operands, reads_variable);
}

}  // namespace

void Interpreter::execute_body(const std::vector<Stmt>& statements, const std::optional<Traversal>& traversal,
                               size_t stack) {
  frame_->scopes.emplace_back();
  Region& region = regions_[stack];
  for (size_t i = 0; i < statements.size() && !frame_->ended; ++i) {
    const Region before = region;
    if (traversal && has_pipeline_) {
      const bool feeds = std::find(traversal->feed.begin(), traversal->feed.end(), i) != traversal->feed.end();
      region = feeds                                    ? Region::first_stage
               : i == traversal->loop                   ? Region::split_stage
               : traversal->cut && i >= *traversal->cut ? Region::last_stage
                                                        : before;
    }
    if (traversal && i == traversal->loop) {
      Value& carried = frame_->variables[traversal->variable].value;
      frame_->traversed_value = carried;
      set_storage(carried, Storage());  // later stages receive it
      frame_->variables[traversal->variable].version = ++versions_;
      if (sequence_) enter_layers(*frame_, *traversal);
    }
    if (sequence_ && traversal && i == traversal->cut) leave_layers(*traversal);
    execute(statements[i]);
    if (sequence_ && traversal && i == traversal->loop) sequence_->positions.reset();
    if (traversal && has_pipeline_ && !(traversal->cut && i >= *traversal->cut)) region = before;
    if (stacks_.exist) {
      if (frame_->reading.first.at) frame_->fed = frame_->variables;
      frame_->reads.push_back(std::exchange(frame_->reading, {}));
    }
    if (frame_->traversing_call) record_pass_on(statements[i]);
  }
  frame_->scopes.pop_back();
}

void Interpreter::record_pass_on(const Stmt& statement) {
  const Expr* const traversing = frame_->traversing_call;
  frame_->traversing_call = nullptr;
  if (!has_pipeline_) return;
  const std::string& type = frame_->function->result;
  const bool can_return = type == "at::Tensor" || type == "modular::Outputs";
  std::string carried;
  if (statement.kind == Stmt::Kind::declare && statement.names.size() == 1 && &statement.exprs[0] == traversing) {
    carried = statement.names[0];
  } else if (statement.kind == Stmt::Kind::expression && is_assignment(statement.exprs[0]) &&
             statement.exprs[0].name == "=" && statement.exprs[0].operands[0].kind == Expr::Kind::local &&
             &statement.exprs[0].operands[1] == traversing) {
    carried = statement.exprs[0].operands[0].name;
  } else if (statement.kind == Stmt::Kind::ret && &statement.exprs[0] == traversing) {
    frame_->pass_ons.push_back({&statement, ""});
    return;
  }
  if (carried.empty() || !can_return) {
    report(traversing->span, "the result of this call is passed to the next pipeline stage, but it is used at once",
           carried.empty() ? "assign it to a local variable first, in the method's outermost block"
                           : "return a Tensor or Outputs from this method");
    return;
  }
  frame_->pass_ons.push_back({&statement, carried});
}

void Interpreter::execute_block(const std::vector<Stmt>& statements) {
  frame_->scopes.emplace_back();
  for (const Stmt& statement : statements) {
    if (frame_->ended) break;
    execute_inner(statement);
  }
  end_scope();
}

void Interpreter::execute_inner(const Stmt& statement) {
  execute(statement);
  if (!frame_->traversing_call) return;
  report(frame_->traversing_call->span,
         frame_->reading.is_cut ? "a call in which the model is cut between its stacks is inside another statement"
                                : "a call that loops over the PP_SPLIT list is inside another statement",
         "call it in the method's outermost block");
  frame_->traversing_call = nullptr;
}

void Interpreter::end_scope() {
  for (const uint32_t variable : frame_->scopes.back()) frame_->variables.erase(variable);
  frame_->scopes.pop_back();
}

Count Interpreter::new_size() { return field_count(kOwnSize + std::to_string(++named_sizes_)); }

void Interpreter::name_sizes(Value& value) {
  if (value.kind != Value::Kind::tensor || !value.rank) return;
  std::vector<Count> sizes;
  bool is_new = false;
  for (int64_t i = 0; i < *value.rank; ++i) {
    const bool is_known = value.sizes[i].is_known();
    is_new |= !is_known;
    sizes.push_back(is_known ? value.sizes[i] : new_size());
  }
  if (is_new) value.sizes = Sizes(std::move(sizes));
}

Variable& Interpreter::declare(const std::string& name, uint32_t number, Value value) {
  name_sizes(value);
  frame_->scopes.back().push_back(number);
  Variable& variable = frame_->variables[number];
  variable = {&name, std::move(value), ++versions_};
  return variable;
}

void Interpreter::declare(const Stmt& statement) {
  const auto reject = [&](std::string message, std::string advice) {
    report(statement.span, std::move(message), std::move(advice));
    declare_names(statement, Value::failure(), std::nullopt);
  };
  if (std::string why = why_unsupported(statement.canonical); !why.empty()) return reject(why, kUseDefaultCopies);
  if (statement.exprs.empty()) {
    Value value;
    if (statement.type.find("Tensor") == std::string::npos || statement.type.find('<') != std::string::npos)
      value = object_value();
    const std::string_view type = statement.canonical, element = type.substr(0, type.find('['));  // of an array
    const bool is_number = make_invariant(element, false).kind == Value::Kind::number;
    if (value.kind == Value::Kind::object) value = empty_object(statement.canonical);
    if (is_family_type(family_, statement.canonical))
      value.is_built = true;
    else if (value.kind == Value::Kind::object && !is_number && !is_value_class(element))
      value = Value::unknown("an object of " + statement.canonical, statement.span);
    if (statement.is_static)
      value = Value::unknown(statement.names[0] + ", which keeps its value between calls", statement.span);
    declare_names(statement, value, std::nullopt);
    for (const uint32_t variable : statement.variables) frame_->variables[variable].is_static = statement.is_static;
    return;
  }
  const Expr& given = statement.exprs[0];
  Value value = evaluate(given);
  if (sequence_) value = convert_number(given, std::move(value), statement.canonical);
  if (statement.is_static && !value.has_failed() && (value.kind != Value::Kind::number || reads_variable(given)))
    return reject("unproven: a static variable keeps its value between calls",
                  "make it a constant outside of the method, or recompute it");
  if (statement.binding == Binding::reference && value.kind == Value::Kind::number && value.count.is_share &&
      given.kind == Expr::Kind::field)
    return reject(kReferenceToCount, kCopyCount);
  declare_names(statement, value, statement.binding == Binding::value ? std::nullopt : get_access_path(given));
  if (value.kind == Value::Kind::number && value.count.is_share && statement.type.find("auto") != std::string::npos &&
      is_local_count(given))
    frame_->variables[statement.variables[0]].is_local_count = true;
  for (const uint32_t variable : statement.variables) frame_->variables[variable].is_static = statement.is_static;
  const bool is_reference = statement.binding != Binding::value && given.is_lvalue && !get_access_path(given);
  const bool is_view =
      statement.binding == Binding::value && given.type != statement.canonical && may_refer(statement.canonical);
  if (value.kind != Value::Kind::module && (is_reference || is_view)) refer_to(given, statement.canonical, true);
  if (statement.binding != Binding::reference || !is_reference) return;
  for (const uint32_t variable : statement.variables) frame_->variables[variable].is_foreign = true;
}

bool Interpreter::is_local_count(const Expr& expr) {
  if (expr.kind == Expr::Kind::op && expr.name == "?:")
    return is_local_count(expr.operands[1]) || is_local_count(expr.operands[2]);
  if (expr.kind == Expr::Kind::op && expr.name == ",") return is_local_count(expr.operands[1]);
  const Variable* variable = expr.kind == Expr::Kind::local ? find_variable(expr) : nullptr;
  return expr.kind == Expr::Kind::field || (variable && variable->is_local_count);
}

void Interpreter::declare_names(const Stmt& statement, const Value& value, const std::optional<AccessPath>& path) {
  const std::vector<std::string>& names = statement.names;
  for (size_t i = 0; i < names.size(); ++i) {
    if (path) {
      Variable& variable = declare(names[i], statement.variables[i], Value());
      variable.refers_to = path;
      if (i < statement.members.size())
        variable.refers_to->steps.push_back({statement.members[i]});
      else if (names.size() > 1)
        variable.refers_to->steps.push_back({"", static_cast<int64_t>(i)});
      continue;
    }
    Value element = value;
    if (names.size() > 1) {
      const auto member = i < statement.members.size() ? value.members.find(statement.members[i]) : value.members.end();
      if (member != value.members.end())
        element = member->second;
      else if (value.kind == Value::Kind::tuple && i < value.elements.size())
        element = value.elements[i];
      else if (value.kind == Value::Kind::list)
        element = value.elements[0];
      else if (value.is_invariant() && !value.is_built)
        element = make_invariant("at::Tensor", true), set_storage(element, value.storage),
        element.is_inside = value.is_inside;
      else if (const Value* unknown = find_unknown(value))
        element = *unknown;
      else if (value.is_built)
        element = Value::unknown(names[i] + ", a member that is not set", statement.span);
      else if (value.kind != Value::Kind::failed)
        element = fail(statement.span, "unproven: a structured binding of a value that is " + describe(value), "");
    }
    declare(names[i], statement.variables[i], std::move(element));
  }
}

bool Interpreter::exceeds_limit(SourceSpan where) {
  // The largest family in the catalogue takes a few thousand.
  constexpr int kMostStatements = 200'000;
  if (statements_ == kMostStatements)
    report(where, "unproven: nested loops or calls run too many statements to follow", "nest them less deeply");
  return statements_++ >= kMostStatements;
}

void Interpreter::execute(const Stmt& statement) {
  if (exceeds_limit(statement.span)) return;
  switch (statement.kind) {
    case Stmt::Kind::declare:
      return declare(statement);
    case Stmt::Kind::expression:
      evaluate(statement.exprs[0]);
      if (statement.exprs[0].kind == Expr::Kind::thrown) frame_->ended = true;
      return;
    case Stmt::Kind::ret:
      return execute_return(statement);
    case Stmt::Kind::block:
      return execute_block(statement.then_body);
    case Stmt::Kind::branch:
      return execute_branch(statement);
    case Stmt::Kind::choice:
      return execute_switch(statement);
    case Stmt::Kind::range_for:
    case Stmt::Kind::loop:
      return execute_loop(statement);
    case Stmt::Kind::leave:
    case Stmt::Kind::next:
      return jump(statement);
    case Stmt::Kind::other:
      report(statement.span, "unproven: no rule for " + statement.construct, "use if, switch, for or while");
      return;
  }
}

void Interpreter::execute_return(const Stmt& statement) {
  if (!statement.exprs.empty()) frame_->results.push_back(evaluate_result(statement.exprs[0]));
  if (!frame_->reached.empty()) frame_->returned.push_back(state());
  frame_->ended = true;
}

Value Interpreter::evaluate_result(const Expr& expr) {
  if (frame_->function->result != "modular::Outputs" || expr.kind != Expr::Kind::list) return evaluate(expr);
  Value outputs = empty_object("modular::Outputs");
  for (size_t i = 0; i < expr.operands.size() && i < expr.members.size(); ++i)
    outputs.members[expr.members[i]] = as_output(expr.members[i], expr.operands[i], evaluate(expr.operands[i]));
  return outputs;
}

Value Interpreter::empty_object(std::string_view type) const {
  const bool is_read = axis_ != Axis::tp && axis_ != Axis::sequence;
  return is_read && type == "modular::Outputs" ? empty_outputs() : object_value();
}

void Interpreter::check_output(const std::string& name, SourceSpan where, const Value& value) {
  const bool is_sum = name == "loss_sum" || name == "token_count";
  if (value.kind == Value::Kind::nothing || name == "carried" || (is_sum && axis_ == Axis::positions)) return;
  if (axis_ == Axis::context && value.is_invariant()) return;  // the same on all ranks
  const bool is_right = is_sum ? is_partial(value)
                               : is_split(value) && !value.may_be_one && !value.outer.is_known() &&
                                     value.type.dim == (axis_ == Axis::rows ? 0 : 1);
  if (is_right) return;
  report(where, "output " + name + " is " + describe(value),
         is_sum ? "make it a sum over the rows of the batch: the runtime sums it over ranks, and divides the sums"
                : "return one row of logits for each row of the batch, and each position, if it has several");
}

Value Interpreter::as_output(const std::string& name, const Expr& expr, const Value& value) {
  if (sequence_) use_parameters(expr.span, get_parameters(value), /*is_partial=*/false);
  if (value.has_failed() || (sequence_ && value.is_invariant())) return value;
  if (axis_ != Axis::tp && !find_unknown(value)) {
    check_output(name, expr.span, value);
    return value;
  }
  if (value.is_invariant()) return value;
  const bool split_last = value.kind == Value::Kind::tensor && value.type.kind == ShardType::Kind::sharded &&
                          value.type.parts.empty() &&
                          (value.type.dim == -1 || (value.rank && value.type.dim == *value.rank - 1));
  if (name == "logits" && split_last) {
    insert_call(Call::gather, expr);
    separate_.insert(value.counts.begin(), value.counts.end());  // ranks that hold the same heads would repeat them
    return Value::tensor(kInvariant, value.gradient, value.rank);
  }
  if (const Value* unknown = find_unknown(value))
    return reject_unknown(*unknown, expr.span, "it becomes the output " + name);
  return fail(expr.span, "output " + name + " is " + describe(value), "outputs have to be full on every tp rank");
}

}  // namespace modgen
