#include "generator/weave/interpret.h"

#include <algorithm>

#include "generator/weave/interpreter.h"

namespace modgen {
namespace {

Value batch() {
  Value value = object_value();
  for (const char* name :
       {"input_ids", "attention_mask", "position_ids", "token_type_ids", "decoder_input_ids", "decoder_attention_mask"})
    value.members[name] = Value::tensor(kInvariant, false, 2);
  for (const char* name : {"feature_ids", "feature_values"}) value.members[name] = Value::tensor(kInvariant, false, 3);
  value.members["pixel_values"] = Value::tensor(kInvariant, false, 4);
  value.members["labels"] = Value::tensor(kInvariant, false, std::nullopt);  // a task's own
  value.members["want_logits"] = Value::number();
  return value;
}

/// A parameter of a method that nothing is known of.
Value unknown_argument(const Parameter& parameter) {
  const std::string& type = parameter.type;
  if (type.find("Batch") != std::string::npos) return batch();
  if (type.find("Tensor") != std::string::npos) return Value::tensor(kInvariant, true, std::nullopt);
  if (type.find("RotaryTables") != std::string::npos) return invariant_of("std::pair<at::Tensor, at::Tensor>", false);
  if (type == "int64_t" || type == "double" || type == "bool" || type == "int") return Value::number();
  return object_value();
}

/// The module that `expr` names, a field of `self` or of a module that it holds; null where it is something else.
const ModuleNode* named_by(const ModuleNode& self, const Expr& expr) {
  if (expr.kind != Expr::Kind::field) return nullptr;
  const ModuleNode* holder = expr.operands.empty() ? &self : named_by(self, expr.operands[0]);
  return holder ? holder->child(expr.name) : nullptr;
}

/// Whether the call is of a unit's forward, which the runtime wraps.
bool runs_unit(const Frame& frame, const ModuleNode& root) {
  return frame.self && frame.function->name == "forward" &&
         (frame.self == &root || (frame.self->type && find_annotation(frame.self->type->annotations, "fsdp_unit")));
}

}  // namespace

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

bool is_assignment(const Expr& expr) {
  static const std::set<std::string> names = {"=", "+=", "-=", "*=", "/="};
  return expr.kind == Expr::Kind::op && names.contains(expr.name);
}

Interpreter::Interpreter(const FamilyModel& family, const ModuleNode& root, OpenSums& sums,
                         Interpretation& interpretation, std::vector<Finding>& findings)
    : family_(family), root_(root), sums_(sums), interpretation_(interpretation), findings_(findings) {
  for_each_node(root, [&](const ModuleNode& node) {
    if (node.field && find_annotation(node.field->annotations, "pp_split")) has_pipeline_ = true;
  });
  has_towers_ = has_towers(root);
  has_pipeline_ |= has_towers_;
}

void Interpreter::run_entry(const Function& forward) {
  is_entry_ = true;
  std::vector<Value> arguments;
  for (const Parameter& parameter : forward.parameters) arguments.push_back(unknown_argument(parameter));
  const Value result = call(forward, &root_, std::move(arguments), nullptr);
  if (!result.has_failed() && !result.is_invariant())
    report(forward.where, "what the entry returns is " + describe(result),
           "a loss and logits have to be whole on every tp rank");
  if (has_towers_ && !walked_ && findings_.empty())
    report(forward.where, "the PP_FIRST and the PP_LAST modules of " + root_.type->holder + " are not both run",
           "run the first tower, and behind it the last on what that made");
}

void Interpreter::run_alone(const Function& method) {
  std::vector<Value> arguments;
  for (const Parameter& parameter : method.parameters) arguments.push_back(unknown_argument(parameter));
  call(method, &root_, std::move(arguments), nullptr);
}

void Interpreter::report(SourceSpan where, std::string message, std::string advice) {
  const bool known = std::any_of(findings_.begin(), findings_.end(),
                                 [&](const Finding& f) { return f.where == where && f.message == message; });
  if (!known) findings_.push_back({true, where, std::move(message), std::move(advice), {}});
}

void Interpreter::note(const Expr& expr, const std::string& operation, bool alike, const std::string& trusted) {
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
  return proof;
}

Value Interpreter::fail(SourceSpan where, std::string message, std::string advice) {
  report(where, std::move(message), std::move(advice));
  return Value::failure();
}

Value Interpreter::unproven(const Expr& expr, const Value& value, const std::string& what) {
  return fail(expr.span, "unproven: there is no rule for " + what + " of a value that is " + describe(value),
              "apply it to whole values, or write it with operations that have a rule (docs/language.md)");
}

void Interpreter::place(Call call, const Expr& expr, const Function* callee) {
  Placement placement{call, &expr, "", 0, callee};
  std::vector<Placement>& list = frame_->placements[&expr];
  std::erase_if(list, [&](const Placement& other) { return other.call == call; });
  if (call == Call::enter && expr.kind == Expr::Kind::local && list.empty()) {
    placement.variable = expr.name;
    placement.version = frame_->variables[expr.name].version;
  }
  list.insert(list.begin(), placement);  // what is placed later stands around it
}

Value Interpreter::call(const Function& function, const ModuleNode* self, std::vector<Value> arguments,
                        const Expr* at) {
  const auto same_call = [&](const auto& active) { return active.first == &function && active.second == self; };
  if (++depth_ > 64 || std::any_of(active_.begin(), active_.end(), same_call)) {
    --depth_;
    return fail(function.where, "unproven: " + function.name + " calls itself",
                "parallel code cannot be placed in recursive methods");
  }
  Frame frame;
  frame.function = &function;
  frame.self = self;
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    const Value value = i < arguments.size() ? arguments[i] : unknown_argument(function.parameters[i]);
    frame.variables[function.parameters[i].name] = {value, ++versions_};
  }
  Frame* const caller = frame_;
  frame_ = &frame;
  const bool is_unit = runs_unit(frame, root_);
  if (is_unit) units_.push_back(self);
  MethodFindings& found = interpretation_[&function];
  const bool first_time = !found.owner && found.placements.empty() && interpreted_.insert(&function).second;
  std::optional<Walk> walk;
  if (self) {
    std::vector<Finding> walk_findings;
    const auto split_list = [&](const Expr& list) {
      const ModuleNode* node = named_by(*self, list);
      return node && node->field && find_annotation(node->field->annotations, "pp_split") ? node->field : nullptr;
    };
    walk = find_walk(split_list, function, walk_findings);
    for (Finding& finding : walk_findings) report(finding.where, finding.message, finding.advice);
  }
  active_.emplace_back(&function, self);
  execute_body(function.body.statements, walk);
  if (has_towers_ && is_entry_) walk = cut_between_towers(frame, caller, at);
  active_.pop_back();
  if (is_unit) units_.pop_back();
  frame_ = caller;
  --depth_;

  keep(frame, found, first_time, at);
  if (at && frame_ && self && !frame.placements.empty()) place(Call::on_shards, *at, &function);
  if (walk) {
    found.walk = walk;
    found.carried = frame.walked_value;
    region_ = Region::last_stage;
    if (walked_ && walk->list)
      fail(at ? at->span : function.where, "the PP_SPLIT list " + walk->list->name + " is walked more than once",
           "a pipeline runs its list once for each batch");
    else if (walked_)
      fail(at ? at->span : function.where, "the model is cut between its towers more than once",
           "a pipeline runs each tower once for each batch");
    walked_ = true;
  }
  if ((walk || !frame.pass_ons.empty() || frame.walking_call) && frame_) frame_->walking_call = at;

  Value result;
  for (const Value& value : frame.results) result = join(result, value);
  if (result.kind == Value::Kind::mismatch)
    return fail(function.where, "what " + function.name + " returns is " + result.text,
                "return values that are split alike");
  return result;
}

std::optional<Walk> Interpreter::cut_between_towers(Frame& frame, Frame* caller, const Expr* at) {
  std::vector<Finding> cut_findings;
  std::optional<Walk> walk = find_cut(*frame.function, frame.reads, cut_findings);
  for (Finding& finding : cut_findings) report(finding.where, finding.message, finding.advice);
  if (walk) frame.walked_value = frame.fed[walk->carried].value;
  const bool is_cut = std::any_of(frame.reads.begin(), frame.reads.end(), [](const auto& one) { return one.is_cut; });
  if (walk || is_cut || !cut_findings.empty() || !caller) return walk;
  for (const StageReads& reads : frame.reads)
    for (const auto part : {&StageReads::first, &StageReads::last})
      if ((reads.*part).at && !(caller->reading.*part).at)
        caller->reading.*part = {at, (reads.*part).node, (reads.*part).marked};
  return walk;
}

void Interpreter::keep(Frame& frame, MethodFindings& found, bool first_time, const Expr* at) {
  std::vector<Placement> placements;
  for (auto& [expr, list] : frame.placements) placements.insert(placements.end(), list.begin(), list.end());
  std::stable_sort(placements.begin(), placements.end(), [](const Placement& a, const Placement& b) {
    return a.expr->span.begin != b.expr->span.begin ? a.expr->span.begin < b.expr->span.begin
                                                    : a.expr->span.end > b.expr->span.end;
  });
  const auto same_calls = [](const std::vector<Placement>& a, const std::vector<Placement>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Placement& one, const Placement& other) {
      return one.call == other.call && one.expr == other.expr;
    });
  };
  if (!first_time) {
    if (same_calls(placements, found.placements) || (found.on_shards && same_calls(placements, *found.on_shards)))
      return;
    const bool can_have_two_forms = frame.self && !runs_unit(frame, root_) && frame.pass_ons.empty() && !found.walk &&
                                    !found.on_shards && placements.empty() != found.placements.empty();
    if (!can_have_two_forms) {
      if (!findings_.empty()) return;  // what was found before an error is not all
      fail(at ? at->span : frame.function->where,
           frame.function->name +
               " is called with values that are split over tp, and elsewhere with others: its parallel calls would "
               "differ",
           "use a class of its own for one of them");
      return;
    }
    found.on_shards = placements.empty() ? std::exchange(found.placements, {}) : std::move(placements);
    return;
  }
  if (frame.self) found.owner = frame.self->type;
  found.placements = std::move(placements);
  found.pass_ons = frame.pass_ons;
}

EntryPlan::Proof interpret_entry(const FamilyModel& family, const ModuleNode& root, OpenSums& sums,
                                 Interpretation& interpretation, std::vector<Finding>& findings) {
  Interpreter interpreter(family, root, sums, interpretation, findings);
  if (const Function* forward = find_method(*root.type, "forward", 1))
    interpreter.run_entry(*forward);
  else
    findings.push_back({true,
                        root.type->where,
                        "MODEL_ENTRY on a class without a forward of one argument",
                        "give it Outputs forward(const Batch& batch)",
                        {}});
  return interpreter.proof();
}

void interpret_unreached(const FamilyModel& family, const ModuleNode& root, OpenSums& sums,
                         Interpretation& interpretation, std::vector<Finding>& findings) {
  for (const Function& method : root.type->functions) {
    if (method.is_constructor || method.name == "reset_parameters" || method.body.span.empty() ||
        interpretation.contains(&method))
      continue;
    Interpreter(family, root, sums, interpretation, findings).run_alone(method);
  }
}

}  // namespace modgen
