#include "generator/interpret.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

namespace modgen {
namespace {

enum class Region { every_stage, first_stage, split_stage, last_stage };

struct Variable {
  Value value;
  uint64_t version = 0;
};

using Environment = std::map<std::string, Variable>;

/// One call of a method.
struct Frame {
  const Function* function = nullptr;
  const ModuleNode* self = nullptr;  // null in a free function
  Environment variables;
  std::vector<std::map<std::string, std::optional<Variable>>> scopes;  // what each scope's declarations hide
  std::vector<Value> results;
  std::map<const Expr*, std::vector<Placement>> placements;
  std::vector<PassOn> pass_ons;
  bool ended = false;                  // no statement behind this one runs
  int depth = 0;                       // of statements inside of others
  const Expr* walking_call = nullptr;  // a call in the current statement that walked the split list
};

Value object() {
  Value value;
  value.kind = Value::Kind::object;
  return value;
}

Value batch() {
  Value value = object();
  for (const char* name : {"input_ids", "labels", "attention_mask", "position_ids"})
    value.members[name] = Value::tensor(kInvariant, false, 2);
  value.members["want_logits"] = Value::number();
  return value;
}

Value module_value(const ModuleNode& node) {
  Value value;
  value.kind = Value::Kind::module;
  value.node = &node;
  return value;
}

/// A parameter of a method that nothing is known of.
Value unknown_argument(const Parameter& parameter) {
  const std::string& type = parameter.type;
  if (type.find("Batch") != std::string::npos) return batch();
  if (type.find("Tensor") != std::string::npos) return Value::tensor(kInvariant, true, std::nullopt);
  if (type.find("RotaryTables") != std::string::npos) return invariant_of("std::pair<at::Tensor, at::Tensor>", false);
  if (type == "int64_t" || type == "double" || type == "bool" || type == "int") return Value::number();
  return object();
}

bool is_assignment(const Expr& expr) {
  static const std::set<std::string> names = {"=", "+=", "-=", "*=", "/="};
  return expr.kind == Expr::Kind::op && names.contains(expr.name);
}

class Interpreter {
 public:
  Interpreter(const FamilyModel& family, const ModuleNode& root, Interpretation& interpretation,
              std::vector<Finding>& findings)
      : family_(family), root_(root), interpretation_(interpretation), findings_(findings) {
    for_each_node(root, [&](const ModuleNode& node) {
      if (node.field && find_annotation(node.field->annotations, "pp_split")) has_pipeline_ = true;
    });
  }

  void run_entry(const Function& forward) {
    is_entry_ = true;
    std::vector<Value> arguments;
    for (const Parameter& parameter : forward.parameters) arguments.push_back(unknown_argument(parameter));
    const Value result = call(forward, &root_, std::move(arguments), nullptr);
    if (!result.has_failed() && !result.is_invariant())
      report(forward.where, "what the entry returns is " + describe(result),
             "a loss and logits have to be whole on every tp rank");
  }

  void run_alone(const Function& method) {
    std::vector<Value> arguments;
    for (const Parameter& parameter : method.parameters) arguments.push_back(unknown_argument(parameter));
    call(method, &root_, std::move(arguments), nullptr);
  }

 private:
  // ---- Reports and placements ----

  void report(SourceSpan where, std::string message, std::string advice) {
    const bool known = std::any_of(findings_.begin(), findings_.end(),
                                   [&](const Finding& f) { return f.where == where && f.message == message; });
    if (!known) findings_.push_back({true, where, std::move(message), std::move(advice), {}});
  }

  Value fail(SourceSpan where, std::string message, std::string advice) {
    report(where, std::move(message), std::move(advice));
    return Value::failure();
  }

  void place(Call call, const Expr& expr) {
    Placement placement{call, &expr, "", 0};
    if (call == Call::enter && expr.kind == Expr::Kind::local) {
      placement.variable = expr.name;
      placement.version = frame_->variables[expr.name].version;
    }
    std::vector<Placement>& list = frame_->placements[&expr];
    std::erase_if(list, [&](const Placement& other) { return other.call == call; });
    list.push_back(placement);
  }

  // ---- Calls ----

  Value call(const Function& function, const ModuleNode* self, std::vector<Value> arguments, const Expr* at) {
    if (++depth_ > 64) {
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
    const bool is_unit = self && function.name == "forward" &&
                         (self == &root_ || (self->type && find_annotation(self->type->annotations, "fsdp_unit")));
    if (is_unit) units_.push_back(self);
    MethodFindings& found = interpretation_[&function];
    const bool first_time = !found.owner && found.placements.empty() && interpreted_.insert(&function).second;
    std::optional<Walk> walk;
    if (self) {
      std::vector<Finding> walk_findings;
      walk = find_walk(*self->type, function, walk_findings);
      for (Finding& finding : walk_findings) report(finding.where, finding.message, finding.advice);
    }
    execute_body(function.body.statements, walk);
    if (is_unit) units_.pop_back();
    frame_ = caller;
    --depth_;

    keep(frame, found, first_time, at);
    if (walk) {
      found.walk = walk;
      region_ = Region::last_stage;
      if (walked_)
        fail(at ? at->span : function.where, "the PP_SPLIT list " + walk->list + " is walked more than once",
             "a pipeline runs its list once for each batch");
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

  /// Takes over what a call of a function found; every call of it has to find the same.
  void keep(Frame& frame, MethodFindings& found, bool first_time, const Expr* at) {
    std::vector<Placement> placements;
    for (auto& [expr, list] : frame.placements) placements.insert(placements.end(), list.begin(), list.end());
    std::stable_sort(placements.begin(), placements.end(), [](const Placement& a, const Placement& b) {
      return a.expr->span.begin != b.expr->span.begin ? a.expr->span.begin < b.expr->span.begin
                                                      : a.expr->span.end > b.expr->span.end;
    });
    const auto same_call = [](const Placement& a, const Placement& b) { return a.call == b.call && a.expr == b.expr; };
    if (!first_time && !std::equal(placements.begin(), placements.end(), found.placements.begin(),
                                   found.placements.end(), same_call)) {
      fail(at ? at->span : frame.function->where,
           frame.function->name +
               " is called with values that are split over tp, and elsewhere with whole ones: its parallel calls would "
               "differ",
           "use a class of its own for one of them");
      return;
    }
    if (frame.self) found.owner = frame.self->type;
    found.placements = std::move(placements);
    found.pass_ons = frame.pass_ons;
  }

  // ---- Statements ----

  void execute_body(const std::vector<Stmt>& statements, const std::optional<Walk>& walk) {
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
      execute(statements[i]);
      if (walk && has_pipeline_ && !(walk->cut && i >= *walk->cut)) region_ = before;
      if (frame_->walking_call) hand_on(statements[i]);
    }
    frame_->scopes.pop_back();
  }

  /// `statement` holds a call in which the split list is walked.
  void hand_on(const Stmt& statement) {
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

  void execute_block(const std::vector<Stmt>& statements) {
    Frame& frame = *frame_;
    frame.scopes.emplace_back();
    ++frame.depth;
    for (const Stmt& statement : statements) {
      if (frame.ended) break;
      execute(statement);
      if (frame.walking_call) {
        report(frame.walking_call->span, "a call that walks the PP_SPLIT list stands inside of another statement",
               "call it in the method's outermost block");
        frame.walking_call = nullptr;
      }
    }
    --frame.depth;
    for (auto& [name, hidden] : frame.scopes.back()) {
      if (hidden)
        frame.variables[name] = *hidden;
      else
        frame.variables.erase(name);
    }
    frame.scopes.pop_back();
  }

  void declare(const std::string& name, Value value) {
    auto& scope = frame_->scopes.back();
    const auto before = frame_->variables.find(name);
    if (!scope.contains(name))
      scope[name] = before == frame_->variables.end() ? std::nullopt : std::optional(before->second);
    frame_->variables[name] = {std::move(value), ++versions_};
  }

  void declare_names(const std::vector<std::string>& names, const Value& value, SourceSpan where) {
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

  void execute(const Stmt& statement) {
    switch (statement.kind) {
      case Stmt::Kind::declare: {
        Value value;
        if (statement.exprs.empty()) {
          if (statement.type.find("Tensor") == std::string::npos) value = object();
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

  Environment joined(const Environment& one, const Environment& other) {
    Environment result = one;
    for (auto& [name, variable] : result) {
      const auto theirs = other.find(name);
      if (theirs == other.end()) continue;
      if (variable.version != theirs->second.version) variable.version = ++versions_;
      variable.value = join(variable.value, theirs->second.value);
    }
    return result;
  }

  void execute_branch(const Stmt& statement) {
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

  void evaluate_condition(const Expr& condition) {
    const Value value = evaluate(condition);
    if (value.has_failed() || value.is_invariant()) return;
    report(condition.span, "a condition on a value that is " + describe(value) + ": ranks would take different paths",
           "");
  }

  /// To a fixed point: types can only fall from "undefined" over a type to a mismatch, so a few rounds are enough.
  void execute_loop(const Stmt& statement) {
    Frame& frame = *frame_;
    Value element;
    if (statement.kind == Stmt::Kind::range_for) element = element_of(statement.exprs[0]);
    const Environment before = frame.variables;
    Environment entry = before;
    for (int round = 0; round < 4; ++round) {
      frame.variables = entry;
      if (statement.kind == Stmt::Kind::loop)
        for (const Expr& expr : statement.exprs) evaluate_condition(expr);
      frame.scopes.emplace_back();
      if (statement.kind == Stmt::Kind::range_for) declare_names(statement.names, element, statement.span);
      execute_block(statement.then_body);
      for (auto& [name, hidden] : frame.scopes.back()) {
        if (hidden)
          frame.variables[name] = *hidden;
        else
          frame.variables.erase(name);
      }
      frame.scopes.pop_back();
      frame.ended = false;  // also the loop may run no round at all
      entry = joined(before, frame.variables);
    }
    frame.variables = entry;
  }

  /// The loop variable of a range-for over `range`.
  Value element_of(const Expr& range) {
    const Expr& list =
        range.kind == Expr::Kind::op && range.name == "*" && range.operands.size() == 1 ? range.operands[0] : range;
    walked_list_ = &list;
    const Value value = evaluate(list);
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
    if (value.is_invariant()) return value.kind == Value::Kind::tensor ? value : object();
    return fail(range.span, "unproven: a loop over a value that is " + describe(value), "");
  }

  // ---- Expressions ----

  Value unproven(const Expr& expr, const Value& value, const std::string& what) {
    return fail(expr.span, "unproven: there is no rule for " + what + " of a value that is " + describe(value),
                "apply it to whole values, or write it with operations that have a rule (docs/language.md)");
  }

  /// A returned value; one of the struct of outputs may be given as a list of its members.
  Value evaluate_result(const Expr& expr) {
    if (frame_->function->return_type != "Outputs" ||
        (expr.kind != Expr::Kind::list && expr.kind != Expr::Kind::construct))
      return evaluate(expr);
    static constexpr const char* names[] = {"logits", "loss_sum", "token_count", "carried"};
    const Expr& list =
        expr.kind == Expr::Kind::construct && expr.operands.size() == 1 && expr.operands[0].kind == Expr::Kind::list
            ? expr.operands[0]
            : expr;
    Value outputs = object();
    for (size_t i = 0; i < list.operands.size() && i < 4; ++i)
      outputs.members[names[i]] = as_output(names[i], list.operands[i], evaluate(list.operands[i]));
    return outputs;
  }

  /// What is put into member `name` of the outputs has to be whole.
  Value as_output(const std::string& name, const Expr& expr, const Value& value) {
    if (value.has_failed() || value.is_invariant()) return value;
    const bool split_last = value.kind == Value::Kind::tensor && value.type.kind == ShardType::Kind::sharded &&
                            (value.type.dim == -1 || (value.rank && value.type.dim == *value.rank - 1));
    if (name == "logits" && split_last) {
      place(Call::gather, expr);
      return Value::tensor(kInvariant, value.gradient, value.rank);
    }
    return fail(expr.span, "output " + name + " is " + describe(value), "outputs have to be whole on every tp rank");
  }

  Value evaluate(const Expr& expr) {
    switch (expr.kind) {
      case Expr::Kind::local:
        return evaluate_local(expr);
      case Expr::Kind::global:
        return invariant_of(expr.type, false);
      case Expr::Kind::literal:
        return evaluate_literal(expr);
      case Expr::Kind::self:
        return frame_->self ? module_value(*frame_->self) : object();
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

  Value evaluate_local(const Expr& expr) {
    const auto found = frame_->variables.find(expr.name);
    if (found == frame_->variables.end()) return invariant_of(expr.type, true);
    if (found->second.value.kind == Value::Kind::mismatch)
      return fail(expr.span, expr.name + " is " + found->second.value.text,
                  "make it alike on all paths that lead here");
    return found->second.value;
  }

  static Value evaluate_literal(const Expr& expr) {
    Value value = Value::number();
    int64_t number = 0;
    const auto [end, error] = std::from_chars(expr.name.data(), expr.name.data() + expr.name.size(), number);
    if (error == std::errc() && end == expr.name.data() + expr.name.size()) value.known = number;
    return value;
  }

  Value evaluate_field(const Expr& expr) {
    if (!expr.operands.empty()) return evaluate_member(expr, evaluate(expr.operands[0]));
    if (!frame_->self) return invariant_of(expr.type, true);
    const ModuleNode& self = *frame_->self;
    if (const ModuleNode* child = self.child(expr.name)) return evaluate_child(expr, *child);
    const auto field = std::find_if(self.type->fields.begin(), self.type->fields.end(),
                                    [&](const Field& f) { return f.name == expr.name; });
    if (field == self.type->fields.end()) return invariant_of(expr.type, true);
    if (find_annotation(field->annotations, "tp_local")) {
      place(Call::local, expr);
      return Value::number(true);
    }
    return invariant_of(expr.type, true);
  }

  Value evaluate_child(const Expr& expr, const ModuleNode& child) {
    if (child.is_module()) {
      const bool is_split_list =
          child.kind == ModuleNode::Kind::list && find_annotation(child.field->annotations, "pp_split");
      if (has_pipeline_ && is_split_list && walked_list_ != &expr)
        return fail(
            expr.span,
            "the PP_SPLIT list " + child.field->name + " is reached into: a stage holds only some of its elements",
            "walk it in order: for (auto& element : *" + child.field->name + ")");
      return module_value(child);
    }
    if (child.kind == ModuleNode::Kind::parameter) read_parameters(expr, child);
    // `torch::ones({heads, width})` says how many dimensions the tensor has.
    std::optional<int64_t> rank;
    const Expr* made = child.construction;
    if (made && made->kind == Expr::Kind::call && !made->operands.empty() && made->operands[0].kind == Expr::Kind::list)
      rank = static_cast<int64_t>(made->operands[0].operands.size());
    return Value::tensor(kInvariant, child.kind == ModuleNode::Kind::parameter, rank);
  }

  Value evaluate_member(const Expr& expr, const Value& object_value) {
    if (object_value.kind == Value::Kind::failed) return object_value;
    if (object_value.kind == Value::Kind::module) {
      const ModuleNode& node = *object_value.node;
      if (const ModuleNode* child = node.child(expr.name)) return evaluate_child(expr, *child);
      const bool is_parameter = expr.name == "weight" || expr.name == "bias";
      if (is_parameter && (node.kind == ModuleNode::Kind::linear || node.kind == ModuleNode::Kind::embedding)) {
        read_parameters(expr, node);
        return Value::tensor(parameter_type(node, expr.name), true, expr.name == "weight" ? 2 : 1);
      }
      if (node.type) {
        for (const Field& field : node.type->fields)
          if (field.name == expr.name && find_annotation(field.annotations, "tp_local")) {
            place(Call::local, expr);
            return Value::number(true);
          }
      }
      return invariant_of(expr.type, true);
    }
    if (object_value.kind == Value::Kind::tuple && (expr.name == "first" || expr.name == "second")) {
      const size_t i = expr.name == "second";
      if (i < object_value.elements.size()) return object_value.elements[i];
    }
    const auto member = object_value.members.find(expr.name);
    if (member != object_value.members.end()) return member->second;
    if (object_value.is_invariant() || object_value.kind == Value::Kind::object) return invariant_of(expr.type, true);
    return unproven(expr, object_value, "." + expr.name);
  }

  static ShardType parameter_type(const ModuleNode& layer, std::string_view parameter) {
    const std::vector<Annotation>& annotations = layer.field->annotations;
    if (find_annotation(annotations, "tp_colwise") || find_annotation(annotations, "tp_vocab")) return sharded(0);
    if (find_annotation(annotations, "tp_rowwise") && parameter == "weight") return sharded(1);
    return kInvariant;
  }

  /// Checks that the parameters of `node` are there when `expr` is run.
  void read_parameters(const Expr& expr, const ModuleNode& node) {
    const ModuleNode* unit = node.unit();
    if (is_entry_ && std::find(units_.begin(), units_.end(), unit) == units_.end())
      report(expr.span,
             "a parameter of " + node.path + " is read outside of the forward of its unit, " + unit->path +
                 ", where it is not gathered",
             "read it inside of " + unit->type->name + "::forward, or drop FSDP_UNIT of that class");
    if (!has_pipeline_ || !is_entry_) return;
    static constexpr std::pair<const char*, Region> stages[] = {
        {"pp_first", Region::first_stage}, {"pp_split", Region::split_stage}, {"pp_last", Region::last_stage}};
    for (const ModuleNode* at = &node; at && at->field; at = at->parent) {
      for (const auto& [annotation, region] : stages) {
        if (!find_annotation(at->field->annotations, annotation)) continue;
        if (region != region_) report(expr.span, wrong_stage(node, region), wrong_stage_advice(region));
        return;
      }
    }
  }

  std::string wrong_stage(const ModuleNode& node, Region owner) const {
    static constexpr const char* held[] = {"", "the first pipeline stage", "the stages of the split list",
                                           "the last pipeline stage"};
    static constexpr const char* run[] = {"on every stage", "on the first stage only",
                                          "inside of the walk over the split list", "on the last stage only"};
    return node.path + " is held by " + held[static_cast<int>(owner)] + " alone, but is used " +
           run[static_cast<int>(region_)];
  }

  static std::string wrong_stage_advice(Region owner) {
    if (owner == Region::first_stage)
      return "use it only for what makes the value that the walk carries, or do not mark it PP_FIRST";
    if (owner == Region::last_stage)
      return "use it only behind the walk over the PP_SPLIT list, on its result, or do not mark it PP_LAST";
    return "use the elements of the list only inside of the walk";
  }

  // ---- Operations ----

  Value apply(const std::string& name, const Expr& expr, std::vector<const Expr*> operands, std::vector<Value> values) {
    for (const Value& value : values)
      if (value.has_failed()) return Value::failure();
    const bool invariant =
        std::all_of(values.begin(), values.end(), [](const Value& value) { return value.is_invariant(); });
    const bool gradient =
        std::any_of(values.begin(), values.end(), [](const Value& value) { return value.carries_gradient(); });
    const Rule rule = find_rule(name);
    if (!rule) {
      if (invariant) return invariant_of(expr.type, gradient);
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
    Value result = rule(op);
    if (!op.message.empty()) return fail(expr.span, op.message, op.advice);
    if (op.call != Call::none) place(op.call, expr);
    for (const size_t i : op.entered) place(Call::enter, *op.operands[i]);
    // What the table gives as a tensor may be something else in an overload of that name.
    if (result.kind == Value::Kind::tensor && !expr.type.empty() && expr.type != "at::Tensor") {
      if (result.is_invariant()) return invariant_of(expr.type, gradient);
      return unproven(expr, result, name);
    }
    return result;
  }

  Value evaluate_call(const Expr& expr) {
    std::vector<const Expr*> operands;
    std::vector<Value> values;
    for (const Expr& operand : expr.operands) operands.push_back(&operand), values.push_back(evaluate(operand));
    const std::string name(unqualified(expr.name));
    if (expr.name.find("modular::" + family_.name + "::") == 0) {
      for (const Function& function : family_.functions)
        if (function.name == name && function.parameters.size() >= values.size())
          return call(function, nullptr, std::move(values), &expr);
    }
    const bool is_woven = expr.name.starts_with("modular::tp::");
    return apply(is_woven ? "tp::" + name : name, expr, std::move(operands), std::move(values));
  }

  Value evaluate_method(const Expr& expr) {
    std::vector<const Expr*> operands;
    std::vector<Value> values;
    for (const Expr& operand : expr.operands) operands.push_back(&operand), values.push_back(evaluate(operand));
    for (const Value& value : values)
      if (value.has_failed()) return Value::failure();
    const Value receiver = values[0];
    if (receiver.kind == Value::Kind::module)
      return evaluate_module(expr, *receiver.node, std::move(operands), std::move(values));
    if (receiver.kind == Value::Kind::tensor || receiver.kind == Value::Kind::nothing) {
      const bool in_place = expr.name.size() > 1 && expr.name.ends_with("_") && !expr.name.ends_with("__");
      const std::string name = "." + (in_place ? expr.name.substr(0, expr.name.size() - 1) : expr.name);
      if (receiver.kind == Value::Kind::nothing && find_rule(name)) return invariant_of(expr.type, false);
      const Value result = apply(name, expr, std::move(operands), std::move(values));
      if (in_place) assign(expr.operands[0], nullptr, result);
      return result;
    }
    if (receiver.kind == Value::Kind::list && expr.name == "size") return Value::number();
    return apply("." + expr.name, expr, std::move(operands), std::move(values));
  }

  Value evaluate_module(const Expr& expr, const ModuleNode& node, std::vector<const Expr*> operands,
                        std::vector<Value> values) {
    using Kind = ModuleNode::Kind;
    if (node.kind == Kind::family) {
      if (const Function* method = find_method(*node.type, expr.name, values.size() - 1))
        return call(*method, &node, {values.begin() + 1, values.end()}, &expr);
      return apply("." + expr.name, expr, {operands.begin() + 1, operands.end()}, {values.begin() + 1, values.end()});
    }
    if (node.kind == Kind::one_of && expr.name == "forward") {
      Value result;
      for (const auto& alternative : node.children)
        result = join(result, evaluate_module(expr, *alternative, operands, values));
      return result.kind == Value::Kind::mismatch
                 ? fail(expr.span, "this is " + result.text, "make the alternatives alike")
                 : result;
    }
    if (node.kind == Kind::list || expr.name != "forward") {
      if (node.kind == Kind::list && expr.name != "size" && expr.name != "begin" && expr.name != "end")
        return invariant_of(expr.type, true);
      return apply("." + expr.name, expr, {operands.begin() + 1, operands.end()}, {values.begin() + 1, values.end()});
    }
    read_parameters(expr, node);
    const std::vector<Annotation>& annotations = node.field->annotations;
    const bool is_linear = node.kind == Kind::linear;
    if (!is_linear && node.kind != Kind::embedding)
      return apply(std::string(unqualified(node.field->type)) + " layer", expr, std::move(operands), std::move(values));
    const std::string layer = is_linear ? "linear" : "embedding";
    std::string rule = layer + " layer";
    if (find_annotation(annotations, "tp_vocab")) rule = "tp_vocab " + layer;
    if (is_linear && find_annotation(annotations, "tp_colwise")) rule = "tp_colwise";
    if (is_linear && find_annotation(annotations, "tp_rowwise")) rule = "tp_rowwise";
    return apply(rule, expr, std::move(operands), std::move(values));
  }

  Value evaluate_operator(const Expr& expr) {
    if (is_assignment(expr)) return evaluate_assignment(expr);
    if (expr.name == "?:") {
      evaluate_condition(expr.operands[0]);
      const Value result = join(evaluate(expr.operands[1]), evaluate(expr.operands[2]));
      return result.kind == Value::Kind::mismatch
                 ? fail(expr.span, "this is " + result.text, "make both alternatives alike")
                 : result;
    }
    std::vector<const Expr*> operands;
    std::vector<Value> values;
    for (const Expr& operand : expr.operands) operands.push_back(&operand), values.push_back(evaluate(operand));
    for (const Value& value : values)
      if (value.has_failed()) return Value::failure();
    if (expr.operands.size() == 1 && (expr.name == "*" || expr.name == "&")) {
      // A holder, an optional or an iterator stands for what it holds.
      if (values[0].kind == Value::Kind::module || values[0].kind == Value::Kind::tensor) return values[0];
      return values[0].is_invariant() ? invariant_of(expr.type, true) : values[0];
    }
    if (expr.name == "++" || expr.name == "--") {
      assign(expr.operands[0], nullptr, values[0].local ? values[0] : Value::number());
      return values[0].local ? values[0] : Value::number();
    }
    if (expr.name == "[]" && values[0].kind == Value::Kind::module && values[0].node->kind == ModuleNode::Kind::list)
      return module_value(*values[0].node->children[0]);
    return apply("op " + expr.name, expr, std::move(operands), std::move(values));
  }

  Value evaluate_assignment(const Expr& expr) {
    Value value = evaluate(expr.operands[1]);
    if (expr.name != "=") {
      const Value before = evaluate(expr.operands[0]);
      value = apply("op " + expr.name.substr(0, 1), expr, {&expr.operands[0], &expr.operands[1]}, {before, value});
    }
    assign(expr.operands[0], &expr.operands[1], value);
    return value;
  }

  /// Gives the target of an assignment its value. `source` is what was written for it, null for a change in place.
  void assign(const Expr& target, const Expr* source, const Value& value) {
    if (target.kind == Expr::Kind::local) {
      frame_->variables[target.name] = {value, ++versions_};
      return;
    }
    if (target.kind == Expr::Kind::field && target.operands.size() == 1 &&
        target.operands[0].kind == Expr::Kind::local) {
      Variable& variable = frame_->variables[target.operands[0].name];
      const bool is_output = target.operands[0].type == "modular::Outputs";
      if (variable.value.kind == Value::Kind::nothing) variable.value = object();
      variable.value.members[target.name] = is_output && source ? as_output(target.name, *source, value) : value;
      variable.version = ++versions_;
      return;
    }
    if (!value.has_failed() && !value.is_invariant())
      report(target.span, "unproven: a value that is " + describe(value) + " is kept outside of local variables",
             "return it, or keep it in a local variable");
  }

  /// Constructions, lists, casts, captures and everything that has no rule of its own.
  Value evaluate_other(const Expr& expr) {
    std::vector<Value> values;
    for (const Expr& operand : expr.operands) values.push_back(evaluate(operand));
    for (const Value& value : values)
      if (value.has_failed()) return Value::failure();
    if (expr.kind == Expr::Kind::cast) return values[0];
    if (expr.kind == Expr::Kind::construct && values.empty()) return expr.name == "at::Tensor" ? Value() : object();
    const bool is_pair = expr.kind == Expr::Kind::construct &&
                         (expr.name.starts_with("std::pair") || expr.name.starts_with("std::tuple"));
    if (expr.kind == Expr::Kind::list || is_pair) {
      Value tuple;
      tuple.kind = Value::Kind::tuple;
      tuple.elements = std::move(values);
      return tuple;
    }
    for (size_t i = 0; i < values.size(); ++i)
      if (!values[i].is_invariant())
        return unproven(expr.operands[i], values[i], expr.kind == Expr::Kind::lambda ? "the capture" : "this use");
    const bool gradient =
        std::any_of(values.begin(), values.end(), [](const Value& value) { return value.carries_gradient(); });
    return invariant_of(expr.type, gradient);
  }

  const FamilyModel& family_;
  const ModuleNode& root_;
  Interpretation& interpretation_;
  std::vector<Finding>& findings_;
  std::set<const Function*> interpreted_;  // only asked for membership
  Frame* frame_ = nullptr;
  std::vector<const ModuleNode*> units_;  // whose forwards are running
  const Expr* walked_list_ = nullptr;     // the range of the range-for that is being entered
  Region region_ = Region::every_stage;
  uint64_t versions_ = 0;
  int depth_ = 0;
  bool has_pipeline_ = false;
  bool is_entry_ = false;
  bool walked_ = false;
};

}  // namespace

void interpret_entry(const FamilyModel& family, const ModuleNode& root, Interpretation& interpretation,
                     std::vector<Finding>& findings) {
  if (const Function* forward = find_method(*root.type, "forward", 1))
    Interpreter(family, root, interpretation, findings).run_entry(*forward);
  else
    findings.push_back({true,
                        root.type->where,
                        "MODEL_ENTRY on a class without a forward of one argument",
                        "give it Outputs forward(const Batch& batch)",
                        {}});
}

void interpret_unreached(const FamilyModel& family, const ModuleNode& root, Interpretation& interpretation,
                         std::vector<Finding>& findings) {
  for (const Function& method : root.type->functions) {
    if (method.is_constructor || method.name == "reset_parameters" || method.body.span.empty() ||
        interpretation.contains(&method))
      continue;
    Interpreter(family, root, interpretation, findings).run_alone(method);
  }
}

}  // namespace modgen
