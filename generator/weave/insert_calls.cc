#include "generator/weave/insert_calls.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

#include "generator/source/slices.h"
#include "generator/weave/editor.h"
#include "generator/weave/hoisting.h"
#include "generator/weave/plan.h"
#include "generator/weave/units.h"

namespace modgen {
namespace {

/// The expression that names the holder of a layer or module in a call: `layer` in `*layer` and `layer.get()`.
const Expr& holder_in(const Expr& object) {
  const bool opens = object.type.find("Impl") != std::string::npos && object.operands.size() == 1 &&
                     ((object.kind == Expr::Kind::op && object.name == "*") ||
                      (object.kind == Expr::Kind::method && (object.name == "get" || object.name == "ptr")));
  return opens ? holder_in(object.operands[0]) : object;
}

class Weaver {
 public:
  Weaver(FamilyModel& family, const Interpretation& interpretation, const SequenceText& sequence,
         std::vector<Finding>& findings)
      : family_(family), interpretation_(interpretation), sequence_(sequence), findings_(findings) {}

  void weave() {
    for (Class& owner : family_.classes) {
      for (Function& function : owner.functions) {
        weave_calls(function, &owner);
        if (function.is_constructor) weave_ties(owner, function);
      }
    }
    for (Function& function : family_.functions) weave_calls(function, nullptr);
  }

 private:
  // ---- Tensor parallelism ----

  void weave_calls(Function& function, const Class* owner) {
    Editor editor(family_.text, function);
    const auto found = interpretation_.find(&function);
    if (found != interpretation_.end()) {
      weave_pipeline(editor, function, found->second);
      weave_shares(editor, function, /*on_shards=*/false);
      weave_placements(editor, function, found->second.placements, /*on_shards=*/false);
      if (found->second.traversal) weave_whole(editor, function, *found->second.traversal);
      if (found->second.on_shards) weave_sharded_overload(function, *found->second.on_shards);
    }
    if (owner && function.name == "forward" && find_annotation(owner->annotations, AnnotationKind::fsdp_unit)) {
      function.method_before = unit_wrapper(family_, *owner, function);
      editor.replace(function.where, "forward_unit");
    }
    add_edits(function, editor.finish());
  }

  static void add_edits(Function& function, std::vector<Edit> edits) {
    for (Edit& edit : edits) {
      const auto text = std::find_if(function.text.begin(), function.text.end(),
                                     [&](const Text& t) { return t.slice.contains(edit.where); });
      assert(text != function.text.end());
      text->edits.push_back(std::move(edit));
    }
  }

  /// Adds a second overload after the method, with the calls that it needs if its arguments are split.
  void weave_sharded_overload(Function& function, const std::vector<Placement>& placements) {
    Editor editor(family_.text, function);
    weave_shares(editor, function, /*on_shards=*/true);
    weave_placements(editor, function, placements, /*on_shards=*/true);
    editor.replace(function.where, on_shards(function));
    const uint32_t begin = next_code(family_.text, function.text.front().slice.begin);
    function.method_after = "/// Overload of " + function.name +
                            " for arguments that are split over tensor-parallel ranks.\n" +
                            edited(family_.text, editor.finish(), begin, function.body.span.end);
  }

  static std::string on_shards(const Function& function) { return function.name + "_on_shards"; }

  void weave_placements(Editor& editor, const Function& function, const std::vector<Placement>& placements,
                        bool on_shards) {
    const auto get_call = [&](const Expr& expr, SequencePlace::Kind kind, SequenceCall::Kind otherwise) {
      const SequenceCall call = sequence_.at({&expr, on_shards, kind});
      return call.kind == SequenceCall::Kind::none ? SequenceCall{otherwise} : call;
    };
    const auto get_enter = [&](const Expr& expr) {
      return get_call(expr, SequencePlace::Kind::enter, SequenceCall::Kind::enter);
    };
    const auto get_sum = [&](const Expr& expr) {
      return get_call(expr, SequencePlace::Kind::sum, SequenceCall::Kind::exit);
    };
    std::set<std::string> names = names_in(function);
    std::set<std::pair<uint32_t, uint64_t>> done;
    for (const Placement& placement : placements) {
      const Expr& expr = *placement.expr;
      switch (placement.call) {
        case Call::enter:
          if (placement.variable.empty())
            wrap(editor, expr.span, get_enter(expr));
          else if (done.emplace(placement.number, placement.version).second)
            weave_enter(editor, function, placements, placement, get_enter(expr), names);
          break;
        case Call::exit:
          weave_layer(editor, expr, get_sum(expr).kind == SequenceCall::Kind::exit ? "tp::exit(" : "tp::reduce(");
          break;
        case Call::partial:
          weave_layer(editor, expr, "tp::partial(");
          break;
        case Call::sum:
          wrap(editor, expr.span, get_sum(expr));
          break;
        case Call::embedding:
          weave_layer(editor, expr, "tp::embedding(");
          break;
        case Call::layer_norm:
          weave_layer(editor, expr, "tp::layer_norm(");
          break;
        case Call::dropout:
          weave_layer(editor, expr, "tp::dropout(");
          break;
        case Call::on_shards:
          if (interpretation_.at(placement.callee).on_shards) weave_call_on_shards(editor, expr, *placement.callee);
          break;
        case Call::attention:
        case Call::cross_entropy:
        case Call::cross_entropy_outputs:
        case Call::sampled_cross_entropy:
        case Call::rms_norm:
        case Call::alibi_slopes:  // the function has the same name in tp
          editor.replace(expr.callee->written, "tp::" + std::string(unqualified(expr.name)));
          break;
        case Call::gather:
          editor.wrap(expr.span, "tp::gather(", ")");
          break;
        case Call::local:
          editor.wrap(expr.span, "tp::local(", ")");
          break;
        case Call::none:
          break;
      }
    }
  }

  /// The names that a new variable could shadow, or be shadowed by.
  static std::set<std::string> names_in(const Function& function) {
    std::set<std::string> names;
    for (const Parameter& parameter : function.parameters) names.insert(parameter.name);
    add_names(function.body, names);
    return names;
  }

  static void add_names(Body body, std::set<std::string>& names) {
    for_each_stmt(body, [&](Stmt& statement) { names.insert(statement.names.begin(), statement.names.end()); });
    for_each_expr(body, [&](Expr& expr) {
      names.emplace(unqualified(expr.name));
      if (expr.body) add_names(*expr.body, names);
    });
  }

  /// Wraps the use of a value that one layer reads. Inserts one `auto x_tp = tp::enter(x);` for several layers that
  /// read the same value, but wraps each use if no statement can be inserted or the name is taken.
  void weave_enter(Editor& editor, const Function& function, const std::vector<Placement>& placements,
                   const Placement& first, const SequenceCall& call, std::set<std::string>& names) {
    std::vector<const Expr*> uses;
    for (const Placement& other : placements)
      if (other.call == Call::enter && other.number == first.number && other.version == first.version)
        uses.push_back(other.expr);
    const auto [block, index] = common_block(function.body.statements, uses);
    const Stmt& statement = (*block)[index];
    const std::string name = first.variable + "_tp";
    const bool is_read_once = uses.size() == 1 && !is_in_lambda(statement, *uses.front());
    if (is_read_once || !can_hoist_before(*block, index, uses) || !names.insert(name).second) {
      for (const Expr* use : uses) wrap(editor, use->span, call);
      return;
    }
    const auto [before, after] = get_text(call);
    editor.insert_before(statement, "auto " + name + " = " + before + first.variable + after + ";");
    for (const Expr* use : uses) editor.wrap(use->span, "", "_tp");
  }

  /// Rewrites `layer(x)` or `layer->forward(x)` to `call(layer, x)`.
  void weave_layer(Editor& editor, const Expr& expr, const std::string& call) {
    const Expr &object = expr.operands[0], &layer = holder_in(object);
    if (layer.type.ends_with("Impl") || !layer.is_lvalue)
      return reject(expr, "a parallel call would have to be inserted around a layer that is not called by its holder",
                    "call the member directly, as in down_proj(x)");
    editor.wrap(expr.span, call, "");
    if (object.outer.begin != layer.outer.begin)
      editor.replace({expr.span.file, object.outer.begin, layer.outer.begin}, "");
    editor.replace({expr.span.file, layer.outer.end, expr.callee->open + 1}, ", ");
  }

  /// Rewrites `norm(x)`, `norm->forward(x)` or `forward(x)` to call the method's overload for split values.
  void weave_call_on_shards(Editor& editor, const Expr& expr, const Function& callee) {
    const Expr& object = expr.operands[0];
    if (object.type.starts_with("modular::OneOf<"))
      return reject(
          expr,
          "one of several classes is called with values that are split over tp here, and with full ones elsewhere",
          "use a separate class for one of the two");
    if (expr.callee->name_at.empty())
      editor.replace({expr.span.file, object.outer.end, object.outer.end}, "->" + on_shards(callee));
    else
      editor.replace(expr.callee->name_at, on_shards(callee));
  }

  void reject(const Expr& expr, std::string message, std::string advice) {
    findings_.push_back({true, expr.span, std::move(message), std::move(advice), {}});
  }

  // ---- Sequence parallelism ----

  /// The text before and after an expression around which `call` stands.
  static std::pair<std::string, std::string> get_text(const SequenceCall& call) {
    static const std::map<SequenceCall::Kind, std::string> names = {{SequenceCall::Kind::enter, "enter"},
                                                                    {SequenceCall::Kind::shared, "shared"},
                                                                    {SequenceCall::Kind::exit, "exit"},
                                                                    {SequenceCall::Kind::reduce, "reduce"},
                                                                    {SequenceCall::Kind::part, "part"},
                                                                    {SequenceCall::Kind::whole, "whole"},
                                                                    {SequenceCall::Kind::whole_size, "whole_size"}};
    const bool is_usual = call.dim == SequenceCall::kBeforeFeatures;
    return {"tp::" + names.at(call.kind) + "(", is_usual ? ")" : ", " + std::to_string(call.dim) + ")"};
  }

  static void wrap(Editor& editor, SourceSpan span, const SequenceCall& call) {
    auto [before, after] = get_text(call);
    editor.wrap(span, std::move(before), std::move(after));
  }

  /// Writes the calls at operands, at numbers of positions and at dropout of shares.
  void weave_shares(Editor& editor, const Function& function, bool on_shards) {
    for_each_expr(function.body, [&](const Expr& expr) {
      for (const auto kind : {SequencePlace::Kind::operand, SequencePlace::Kind::size})
        if (const SequenceCall call = sequence_.at({&expr, on_shards, kind}); call.kind != SequenceCall::Kind::none)
          wrap(editor, expr.span, call);
      if (sequence_.at({&expr, on_shards, SequencePlace::Kind::dropout}).kind != SequenceCall::Kind::positions) return;
      editor.wrap(expr.operands.back().outer, "", ", tp::Cut::positions");
      weave_layer(editor, expr, "tp::dropout(");
    });
  }

  /// The reads of the local variable `variable` in `statement`.
  static std::vector<const Expr*> find_reads(const Stmt& statement, uint32_t variable) {
    std::vector<const Expr*> reads;
    const auto visit = [&](auto& self, const Expr& expr) -> void {
      if (expr.kind == Expr::Kind::local && expr.variable == variable) reads.push_back(&expr);
      for (const Expr& operand : expr.operands) self(self, operand);
    };
    for (const Expr& expr : statement.exprs) visit(visit, expr);
    for (const auto* body : {&statement.then_body, &statement.else_body})
      for (const Stmt& inner : *body) {
        const auto inside = find_reads(inner, variable);
        reads.insert(reads.end(), inside.begin(), inside.end());
      }
    return reads;
  }

  /// The only read of what the loop carries, after it; null if there are several, or if it may run more than once.
  static const Expr* find_only_read(const Function& function, const Traversal& traversal, size_t end) {
    const std::vector<Stmt>& statements = function.body.statements;
    std::vector<const Expr*> reads;
    for (size_t i = end; i < statements.size(); ++i) {
      const auto inside = find_reads(statements[i], traversal.variable);
      if (!inside.empty() && statements[i].kind != Stmt::Kind::ret && statements[i].kind != Stmt::Kind::declare)
        return nullptr;
      reads.insert(reads.end(), inside.begin(), inside.end());
    }
    return reads.size() == 1 && !is_in_lambda(statements[end], *reads[0]) ? reads[0] : nullptr;
  }

  void weave_whole(Editor& editor, const Function& function, const Traversal& traversal) const {
    const auto end = sequence_.loops.find(&function);
    if (end == sequence_.loops.end()) return;
    if (const Expr* read = find_only_read(function, traversal, end->second)) editor.wrap(read->span, "tp::whole(", ")");
  }

  // ---- Pipeline ----

  static std::string return_from_stage(const Function& function, const std::string& carried,
                                       const std::string& condition = "pp::is_last()") {
    return "if (!" + condition + ") return " +
           (function.result == "modular::Outputs" ? "pp::pass_on(" + carried + ");" : carried + ";");
  }

  void weave_pipeline(Editor& editor, const Function& function, const MethodFindings& found) {
    const std::vector<Stmt>& statements = function.body.statements;
    if (found.cut) {
      weave_feed(editor, statements, *found.cut, "pp::first_stack()", /*are_shares=*/false);
      editor.insert_before(
          statements[*found.cut->cut],
          return_from_stage(function, found.cut->carried, "pp::second_stack(" + found.cut->carried + ")"));
    }
    if (found.traversal) {
      const Traversal& traversal = *found.traversal;
      const auto shares = sequence_.loops.find(&function);
      const bool are_shares = shares != sequence_.loops.end();
      weave_feed(editor, statements, traversal, "pp::is_first()", are_shares);
      const Expr& range = statements[traversal.loop].exprs[0];
      const Expr& list = range.kind == Expr::Kind::op ? range.operands[0] : range;
      editor.replace({range.span.file, range.span.begin, list.outer.begin}, "pp::local(");
      editor.wrap(list.outer, "", ")");
      std::string code;
      if (traversal.cut || are_shares) code = return_from_stage(function, traversal.carried);
      if (are_shares && !find_only_read(function, traversal, shares->second))
        code += "\n" + traversal.carried + " = tp::whole(" + traversal.carried + ");";
      if (!code.empty()) editor.insert_before(statements[are_shares ? shares->second : *traversal.cut], code);
    }
    for (const PassOn& pass_on : found.pass_ons) {
      if (pass_on.carried.empty()) continue;
      const auto at = std::find_if(statements.begin(), statements.end(),
                                   [&](const Stmt& statement) { return &statement == pass_on.statement; });
      const std::string code = return_from_stage(function, pass_on.carried);
      if (at + 1 != statements.end())
        editor.insert_before(*(at + 1), code);
      else
        editor.insert_after(*at, code);
    }
  }

  /// Makes stages for which `begin` is false receive the carried value instead of computing it. With `are_shares`, the
  /// value becomes each tp rank's part of the positions.
  static void weave_feed(Editor& editor, const std::vector<Stmt>& statements, const Traversal& traversal,
                         const std::string& begin, bool are_shares) {
    const Stmt& first = statements[traversal.feed.front()];
    if (traversal.feed.size() == 1 && first.kind == Stmt::Kind::declare && first.names.size() == 1 &&
        first.exprs[0].type == "at::Tensor" && first.exprs[0].kind != Expr::Kind::list) {
      editor.wrap(first.exprs[0].outer, begin + (are_shares ? " ? tp::part(" : " ? "),
                  are_shares ? ") : pp::received()" : " : pp::received()");
      return;
    }
    std::string opening;
    for (const size_t i : traversal.feed) {
      const Stmt& statement = statements[i];
      if (statement.kind != Stmt::Kind::declare || statement.names != std::vector<std::string>{traversal.carried})
        continue;
      opening = "Tensor " + traversal.carried + ";\n";
      const SourceSpan& initializer = statement.exprs[0].outer;
      editor.replace({initializer.file, statement.span.begin, initializer.begin}, traversal.carried + " = ");
      if (initializer.end + 1 != statement.span.end)
        editor.replace({initializer.file, initializer.end, statement.span.end}, ";");
    }
    editor.insert_before(first, opening + "if (" + begin + ") {");
    const std::string part = are_shares ? traversal.carried + " = tp::part(" + traversal.carried + ");\n" : "";
    editor.insert_after(statements[traversal.feed.back()],
                        part + "} else {\n" + traversal.carried + " = pp::received();\n}");
  }

  // ---- Ties ----

  void weave_ties(const Class& owner, Function& constructor) {
    const std::string config = to_config(family_, owner, constructor);
    const auto tie = [&](const std::string& module, const std::string& parameter, const std::string& source) {
      constructor.appended_statements.push_back("if (" + config + "." + kTieFlag + ") tie_parameter(*" + module + ", " +
                                                parameter + ", " + source + ");");
    };
    for (const Field& field : owner.fields) {
      for (const Annotation& tied : field.annotations) {
        if (tied.kind == AnnotationKind::tied_to && tied.arguments.size() == 1) {
          const bool is_parameter = field.canonical == "at::Tensor";
          tie(is_parameter ? "this" : field.name, is_parameter ? field.name : field.name + "->weight",
              tied.arguments[0]);
        } else if (tied.kind == AnnotationKind::ties && tied.arguments.size() == 2) {
          const std::string inner = field.name + "->" + inside(tied.arguments[0]);
          tie(inner.substr(0, inner.rfind("->")), inner, tied.arguments[1]);
        }
      }
    }
  }

 public:
  /// The name under which a constructor can read the config with the tie flag; empty if it has no such config.
  static std::string to_config(const FamilyModel& family, const Class& owner, const Function& constructor) {
    const auto has_flag = [&](const std::string& canonical) {
      const Class* config = class_of_type(family, canonical);
      return config && config->is_config &&
             std::ranges::any_of(config->fields, [](const Field& field) { return field.name == kTieFlag; });
    };
    for (const Parameter& parameter : constructor.parameters)
      if (!parameter.name.empty() && has_flag(parameter.canonical)) return parameter.name;
    for (const Field& field : owner.fields)
      if (has_flag(field.canonical)) return field.name;
    return "";
  }

 private:
  FamilyModel& family_;
  const Interpretation& interpretation_;
  const SequenceText& sequence_;
  std::vector<Finding>& findings_;
};

}  // namespace

void insert_calls(FamilyModel& family, const Interpretation& interpretation, const SequenceText& sequence,
                  std::vector<Finding>& findings) {
  Weaver(family, interpretation, sequence, findings).weave();
}

void check_ties(const FamilyModel& family, std::vector<Finding>& findings) {
  for (const Class& owner : family.classes) {
    const Annotation* tie = nullptr;
    for (const Field& field : owner.fields)
      for (const AnnotationKind kind : {AnnotationKind::tied_to, AnnotationKind::ties})
        if (const Annotation* found = find_annotation(field.annotations, kind); found && !tie) tie = found;
    if (!tie) continue;
    for (const Function& function : owner.functions) {
      if (!function.is_constructor) continue;
      if (Weaver::to_config(family, owner, function).empty())
        findings.push_back({true,
                            function.where,
                            "a constructor of " + owner.name +
                                ", whose parameters are tied by a config flag, has "
                                "no config with " +
                                kTieFlag,
                            "pass the config as a named parameter, or keep it in a member",
                            {{false, tie->where, "the tie", "", {}}}});
      Body body = function.body;
      for_each_stmt(body, [&](Stmt& statement) {
        if (statement.kind == Stmt::Kind::ret)
          findings.push_back({true,
                              statement.span,
                              "a constructor that ties parameters at its end returns early",
                              "put the rest into the other branch",
                              {{false, tie->where, "the tie", "", {}}}});
      });
    }
  }
}

}  // namespace modgen
