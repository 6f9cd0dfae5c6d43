#include "generator/weave/interpret.h"

#include <algorithm>
#include <iterator>

#include "generator/weave/interpreter.h"
#include "generator/weave/partition.h"
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

/// The first statement after the loop that reads the value that it carries; empty if there is none.
std::optional<size_t> find_reader(const std::vector<Stmt>& statements, const Traversal& traversal) {
  for (size_t i = traversal.loop + 1; i < statements.size(); ++i)
    if (mentions(statements[i], traversal.variable)) return i;
  return std::nullopt;
}

}  // namespace

const ModuleNode* find_named_module(const ModuleNode& self, const Expr& expr) {
  const bool is_element = expr.kind == Expr::Kind::op && expr.name == "[]";
  if (expr.kind != Expr::Kind::field && !is_element) return nullptr;
  const ModuleNode* holder = expr.operands.empty() ? &self : find_named_module(self, expr.operands[0]);
  if (!holder) return nullptr;
  if (is_element) return holder->kind == ModuleNode::Kind::list ? holder->children[0].get() : nullptr;
  return holder->child(expr.name);
}

Value object_value() {
  Value value;
  value.kind = Value::Kind::object;
  return value;
}

Value module_value(const ModuleNode& node) {
  Value value;
  value.kind = Value::Kind::module;
  value.node = &node;
  return value;
}

Interpreter::Interpreter(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root,
                         OpenSums& sums, Interpretation& interpretation, std::vector<Finding>& findings, Axis axis)
    : family_(family),
      functions_(functions),
      root_(root),
      sums_(sums),
      interpretation_(interpretation),
      findings_(findings),
      axis_(axis) {
  if (axis != Axis::tp) return;
  local_counts_ = find_counts(root);
  vocabularies_ = find_vocabularies(root);
  for_each_node(root, [&](const ModuleNode& node) {
    if (node.field && find_annotation(node.field->annotations, AnnotationKind::pp_split)) has_pipeline_ = true;
  });
  stacks_ = find_stacks(root);
  has_pipeline_ |= stacks_.exist;
}

void Interpreter::run_entry(const Function& forward) {
  is_entry_ = true;
  std::vector<Value> arguments;
  for (const Parameter& parameter : forward.parameters) arguments.push_back(any_argument(parameter));
  const KnownTask* task = find_task(family_, *root_.type);
  if (task && forward.parameters[0].canonical == "modular::Batch") arguments[0] = batch_value(Axis::tp, *task);
  const Value result = call(forward, &root_, {}, std::move(arguments), nullptr);
  if (const Value* unknown = find_unknown(result))
    reject_unknown(*unknown, forward.where, "the entry returns it");
  else if (!result.has_failed() && !result.is_invariant())
    report(forward.where, "the entry returns a value that is " + describe(result),
           "the loss and the logits have to be full on every tp rank");
  if (stacks_.exist && !cut_ && findings_.empty())
    report(forward.where, "the PP_FIRST and the PP_LAST modules of " + root_.type->holder + " are not both run",
           "run the first stack, then run the second stack on its output");
}

Value Interpreter::read_entry(const Function& forward, const Value& batch) {
  is_entry_ = true;
  const Value result = call(forward, &root_, {}, {batch}, nullptr);
  if (const Value* unknown = find_unknown(result)) reject_unknown(*unknown, forward.where, "the entry returns it");
  for (const auto& [name, member] : result.members)  // those that were changed in place, too
    if (!member.has_failed() && findings_.empty()) check_output(name, forward.where, member);
  return result;
}

void Interpreter::read_shares(const Function& forward, const Value& batch, SequenceReading& sequence) {
  is_entry_ = true;
  sequence_ = &sequence;
  const Value result = call(forward, &root_, {}, {batch}, nullptr);
  if (!findings_.empty()) return;
  if (!result.is_invariant()) report(forward.where, "the entry returns a value that is " + describe(result), "");
  use_parameters(forward.where, get_parameters(result), /*is_partial=*/false);
  if (const auto unplaced = sequence.place_numbers()) report(unplaced->number->span, unplaced->why, "");
}

void Interpreter::run_alone(const Function& method) {
  std::vector<Value> arguments;
  for (const Parameter& parameter : method.parameters) arguments.push_back(any_argument(parameter));
  call(method, &root_, {}, std::move(arguments), nullptr);
}

void Interpreter::report(SourceSpan where, std::string message, std::string advice, std::vector<Finding> notes) {
  message = to_words(axis_, std::move(message));
  for (Finding& note : notes) note.message = to_words(axis_, std::move(note.message));
  const bool known = std::any_of(findings_.begin(), findings_.end(),
                                 [&](const Finding& f) { return f.where == where && f.message == message; });
  if (!known) findings_.push_back({true, where, std::move(message), std::move(advice), std::move(notes)});
}

void Interpreter::note(const Expr& expr, const std::string& operation, bool alike, const std::string& trusted) {
  if (!counts_in_proof_ && trusted.empty()) return;
  Noted& noted = noted_[&expr];
  noted.operation = operation.substr(operation.starts_with("op ") ? 3 : operation.starts_with(".") ? 1 : 0);
  noted.alike = noted.alike && alike;
  if (!trusted.empty()) noted.trusted = trusted;
}

EntryPlan::Proof Interpreter::proof() const {
  EntryPlan::Proof proof;
  for (const auto& [expr, noted] : noted_) {
    if (!noted.trusted.empty())
      proof.trusted.push_back({noted.operation, noted.trusted, expr->span});
    else if (noted.alike)
      ++proof.alike;
    else
      ++proof.by_rule[noted.operation];
  }
  std::sort(proof.trusted.begin(), proof.trusted.end(),
            [](const EntryPlan::Trust& a, const EntryPlan::Trust& b) { return a.where.begin < b.where.begin; });
  std::ranges::set_difference(serving_, separate_, std::inserter(proof.shared_counts, proof.shared_counts.end()));
  return proof;
}

Value Interpreter::fail(SourceSpan where, std::string message, std::string advice) {
  report(where, std::move(message), std::move(advice));
  return Value::failure();
}

Value Interpreter::unproven(const Expr& expr, const Value& value, const std::string& what) {
  if (const Value* unknown = find_unknown(value)) return reject_unknown(*unknown, expr.span, "it is used here");
  return fail(expr.span, "unproven: no rule for " + what + " of a value that is " + describe(value),
              axis_ == Axis::tp ? kUseRules : std::string(get_advice(axis_)));
}

void Interpreter::insert_call(Call call, const Expr& expr, const Function* callee) {
  if (axis_ != Axis::tp) return;
  // Most calls rewrite parts of the expression; these four wrap it.
  const bool rewrites = call != Call::enter && call != Call::sum && call != Call::gather && call != Call::local;
  if (expr.in_macro || (rewrites && expr.callee && expr.callee->open == 0))
    return report(expr.span, "a parallel call would have to be inserted in the body of a macro",
                  "write the macro's expansion here");
  Placement placement{call, &expr, "", 0, 0, callee};
  std::vector<Placement>& list = frame_->placements[&expr];
  std::erase_if(list, [&](const Placement& other) { return other.call == call; });
  if (call == Call::enter && expr.kind == Expr::Kind::local && list.empty()) {
    const Variable* variable = find_variable(expr);
    placement.variable = expr.name;
    placement.number = expr.variable;
    placement.version = variable->refers_to ? find_root(*variable->refers_to).version : variable->version;
  }
  list.insert(list.begin(), placement);  // later insertions are outermost
}

Value Interpreter::call(const Function& function, const ModuleNode* self, const std::vector<const Expr*>& operands,
                        std::vector<Value> values, const Expr* at) {
  const bool is_helper = sequence_ && frame_ && self == frame_->self;
  if (is_helper && std::ranges::any_of(values, [](const Value& value) { return find_variant(value) != nullptr; }))
    return call_with_shares(function, self, operands, values, at);
  Frame frame;
  frame.function = &function;
  frame.self = self;
  bind_parameters(frame, operands, std::move(values));
  return run(frame, at);
}

Value Interpreter::call_on_object(const Function& function, const Expr* object,
                                  const std::vector<const Expr*>& operands, std::vector<Value> values, const Expr& at) {
  static const std::string kThis = "this";
  Frame frame;
  frame.function = &function;
  Variable& self = frame.variables[0];
  self.name = &kThis;
  self.value = object_value();
  self.value.is_built = true;
  if (object) {
    self.value = std::move(values.front());
    values.erase(values.begin());
    self.refers_to = get_access_path(*object);
    if (self.refers_to && !function.is_const) frame.reached.push_back(self.refers_to->frame);
  }
  bind_parameters(frame, operands, std::move(values));
  const Value result = run(frame, &at);
  return function.is_constructor && !result.has_failed() ? frame.variables[0].value : result;
}

void Interpreter::bind_parameters(Frame& frame, const std::vector<const Expr*>& operands, std::vector<Value> values) {
  const std::vector<Parameter>& parameters = frame.function->parameters;
  const bool is_unit = runs_unit(frame, root_);
  frame.given = values;
  std::vector<std::pair<Variable*, AccessPath>> constants;
  for (size_t i = 0; i < parameters.size(); ++i) {
    Variable& variable = frame.variables[parameters[i].variable];
    variable.name = &parameters[i].name;
    variable.version = ++versions_;
    variable.value = i < values.size() ? std::move(values[i]) : default_argument(parameters[i]);
    // The runtime keeps copies of a unit's arguments, and runs it again on them.
    if (is_unit) set_storage(variable.value, Storage());
    if (is_unit || i >= operands.size() || parameters[i].binding == Binding::value) continue;
    if (parameters[i].binding == Binding::reference && variable.value.kind == Value::Kind::number &&
        variable.value.count.is_share && operands[i]->kind == Expr::Kind::field)
      report(operands[i]->span, kReferenceToCount, kCopyCount);
    const std::optional<AccessPath> path = get_access_path(*operands[i]);
    if (parameters[i].binding == Binding::constant_reference) {
      if (path && variable.value == read(*path, *operands[i])) constants.emplace_back(&variable, *path);
    } else if (path) {
      variable.refers_to = path;
      if (std::find(frame.reached.begin(), frame.reached.end(), path->frame) == frame.reached.end())
        frame.reached.push_back(path->frame);
    } else {
      variable.is_foreign = operands[i]->is_lvalue;
    }
  }
  for (const Parameter& parameter : parameters) name_sizes(frame.variables[parameter.variable].value);
  // Without a mutable reference, a const reference is equivalent to a copy.
  if (frame.reached.empty()) return;
  for (auto& [variable, path] : constants) variable->refers_to = path;
  for (size_t i = 0; !is_unit && i < parameters.size() && i < operands.size(); ++i)
    if (parameters[i].binding != Binding::value && operands[i]->is_lvalue && !get_access_path(*operands[i]) &&
        frame.variables[parameters[i].variable].value.kind != Value::Kind::module)
      refer_to(*operands[i], operands[i]->type, true);
}

Value Interpreter::run(Frame& frame, const Expr* at) {
  const Function& function = *frame.function;
  const ModuleNode* const self = frame.self;
  const auto same_call = [&](const auto& active) { return active.first == &function && active.second == self; };
  if (std::any_of(active_.begin(), active_.end(), same_call))
    return fail(function.where, "unproven: " + function.name + " calls itself",
                "parallel calls cannot be inserted into recursive methods");
  constexpr size_t kDeepest = 256;
  if (active_.size() == kDeepest)
    return fail(at->span, "unproven: calls nested " + std::to_string(kDeepest) + " deep are not followed",
                "inline some of these methods into their callers");
  if (function.is_inner && function.is_virtual)
    return fail(at->span, "unproven: a virtual call of " + function.name + ": which method runs is not known",
                "call a method that is not virtual");
  if (function.body.span.empty())
    return fail(at ? at->span : function.where, "unproven: the definition of " + function.name + " is not known here",
                "define it in the spec");
  frame.caller = frame_;
  frame.called = at;
  frame.context = contexts_
                      .try_emplace({frame.caller ? frame.caller->context : 0, at, &function},
                                   static_cast<uint32_t>(contexts_.size() + 1))
                      .first->second;
  if (sequence_) find_woven(frame, at);
  frame_ = &frame;
  const bool is_unit = runs_unit(frame, root_);
  if (is_unit) units_.push_back(self);
  MethodFindings& found = interpretation_[&function];
  const bool first_time = !found.owner && found.placements.empty() && interpreted_.insert(&function).second;
  std::optional<Traversal> traversal, cut;
  size_t stack = 0;
  if (self && has_pipeline_) {
    std::vector<Finding> traversal_findings;
    const auto split_list = [&](const Expr& list) {
      const ModuleNode* node = find_named_module(*self, list);
      if (!node || !is_split_list(*node, stacks_)) return static_cast<const Field*>(nullptr);
      stack = find_stage_position(*node, stacks_).stack;
      return node->field;
    };
    traversal = find_traversal(split_list, function, traversal_findings);
    for (Finding& finding : traversal_findings)
      report(finding.where, finding.message, finding.advice, std::move(finding.notes));
    // Without a valid cut the stage of a statement is unknown.
    if (!traversal_findings.empty()) has_pipeline_ = false;
  }
  if (sequence_ && self && sequence_->find(&function)) traversal = sequence_->find(&function)->traversal;
  if (traversal && sequence_ && !traversal->cut) traversal->cut = find_reader(function.body.statements, *traversal);
  active_.emplace_back(&function, self);
  for (const Initializer& initializer : function.body.initializers) initialize(initializer, at);
  execute_body(function.body.statements, traversal, stack);
  if (stacks_.exist && is_entry_) cut = cut_between_stacks(frame, frame.caller, at);
  active_.pop_back();
  if (is_unit) units_.pop_back();
  if (!frame.reached.empty()) {
    if (!frame.ended) frame.returned.push_back(state());
    if (!frame.returned.empty()) restore(joined(std::move(frame.returned)));
  }
  frame_ = frame.caller;
  if (sequence_) return join_results(frame);

  merge_findings(frame, found, first_time, at);
  if (at && frame_ && self && !frame.placements.empty()) insert_call(Call::on_shards, *at, &function);
  const SourceSpan here = at ? at->span : function.where;
  if (!first_time && is_entry_ && findings_.empty() && found.traversal.has_value() != traversal.has_value())
    report(here, "a PP_SPLIT list is cut in one entry, but is part of a module that a single stage holds in another",
           "use a separate class for one of the two");
  if (traversal) {
    if (std::exchange(traversed_[stack], true))
      report(here, "the PP_SPLIT list " + traversal->list->name + " is looped over more than once",
             "a pipeline runs its list once per batch");
    if (cut && stack == 0)
      report(function.body.statements[traversal->loop].span,
             "the loop over the first stack's PP_SPLIT list " + traversal->list->name +
                 " is in the method that runs the second stack",
             "loop over it in a separate method, which returns the first stack's output");
    if (cut) std::erase_if(traversal->feed, [&](size_t statement) { return statement < *cut->cut; });
    regions_[stack] = Region::last_stage;
    found.traversal = traversal;
    found.carried = frame.traversed_value;
  }
  if (cut) {
    if (std::exchange(cut_, true))
      report(here, "the model is cut between its stacks more than once", "a pipeline runs each stack once per batch");
    found.cut = cut;
    found.crossing = frame.crossing;
  }
  if ((traversal || cut || !frame.pass_ons.empty() || frame.traversing_call) && frame_) frame_->traversing_call = at;

  return join_results(frame);
}

void Interpreter::initialize(const Initializer& initializer, const Expr* at) {
  std::vector<Value> values;
  for (const Expr& argument : initializer.arguments) values.push_back(evaluate(argument));
  auto& members = frame_->variables[0].value.members;
  if (values.size() == 1 && initializer.is_base && values[0].has_failed()) {
    frame_->variables[0].value = Value::failure();
    return;
  }
  if (values.size() == 1) {
    members[initializer.name] = std::move(values[0]);
    return;
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (!values[i].has_failed() && !values[i].is_invariant())
      unproven(initializer.arguments[i], values[i], "this initializer");
  const Class* owner = at ? class_of_type(family_, at->type) : nullptr;
  if (!owner) return;
  for (const Field& field : owner->fields)
    if (field.name == initializer.name &&
        (field.is_plain || (is_value_class(field.canonical) && !is_family_type(family_, field.canonical))))
      members[field.name] =
          values.empty() && field.canonical == "at::Tensor" ? Value() : make_invariant(field.canonical, true);
}

EntryPlan::Proof interpret_entry(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root,
                                 OpenSums& sums, Interpretation& interpretation, std::vector<Finding>& findings) {
  Interpreter interpreter(family, functions, root, sums, interpretation, findings);
  if (const Function* forward = find_method(*root.type, "forward", 1))
    interpreter.run_entry(*forward);
  else
    findings.push_back({true,
                        root.type->where,
                        "MODEL_ENTRY marks a class without a forward that takes one argument",
                        "add Outputs forward(const Batch& batch)",
                        {}});
  return interpreter.proof();
}

namespace {

/// Adds the methods of `owner` that `body` calls, and those that these call. Lambdas count.
void add_called(const FunctionIndex& functions, const Class& owner, const Body& body,
                std::set<const Function*>& called) {
  for_each_expr(body, [&](const Expr& expr) {
    if (expr.body) add_called(functions, owner, *expr.body, called);
    const Function* callee = expr.callee ? functions.find(*expr.callee) : nullptr;
    const bool is_own =
        callee && std::ranges::any_of(owner.functions, [&](const Function& own) { return &own == callee; });
    if (is_own && called.insert(callee).second) add_called(functions, owner, callee->body, called);
  });
}

}  // namespace

void interpret_unreached(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root,
                         OpenSums& sums, Interpretation& interpretation, std::vector<Finding>& findings) {
  // Initialization changes parameters in place.
  std::set<const Function*> initializes;
  for (const Function& method : root.type->functions) {
    if (method.name != "reset_parameters") continue;
    initializes.insert(&method);
    add_called(functions, *root.type, method.body, initializes);
  }
  for (const Function& method : root.type->functions) {
    if (method.is_constructor || method.is_template || initializes.contains(&method) || method.body.span.empty() ||
        interpretation.contains(&method))
      continue;
    Interpreter(family, functions, root, sums, interpretation, findings).run_alone(method);
  }
}

}  // namespace modgen
