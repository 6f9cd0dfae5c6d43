#include "generator/weave/weave.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "generator/source/slices.h"
#include "generator/weave/editor.h"
#include "generator/weave/interpret.h"
#include "generator/weave/module_tree.h"
#include "generator/weave/plan.h"

namespace modgen {
namespace {

bool contains(const Stmt& statement, const Expr& expr) { return statement.span.contains(expr.span); }

/// The innermost list of statements in which all of `uses` stand, and the index of the first statement there that holds
/// one.
std::pair<const std::vector<Stmt>*, size_t> common_block(const std::vector<Stmt>& statements,
                                                         const std::vector<const Expr*>& uses) {
  for (size_t i = 0; i < statements.size(); ++i) {
    const bool holds_first = contains(statements[i], *uses.front());
    if (!holds_first) continue;
    const bool holds_all =
        std::all_of(uses.begin(), uses.end(), [&](const Expr* use) { return contains(statements[i], *use); });
    if (holds_all) {
      for (const auto* body : {&statements[i].then_body, &statements[i].else_body}) {
        const bool inside = std::all_of(uses.begin(), uses.end(), [&](const Expr* use) {
          return std::any_of(body->begin(), body->end(), [&](const Stmt& inner) { return contains(inner, *use); });
        });
        if (inside && !body->empty()) return common_block(*body, uses);
      }
    }
    return {&statements, i};
  }
  return {&statements, 0};
}

class Weaver {
 public:
  Weaver(FamilyModel& family, const Interpretation& interpretation)
      : family_(family), interpretation_(interpretation) {}

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
      weave_placements(editor, function, found->second.placements);
      if (found->second.on_shards) weave_second_form(function, *found->second.on_shards);
    }
    if (owner && function.name == "forward" && find_annotation(owner->annotations, "fsdp_unit"))
      weave_unit(editor, *owner, function);
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

  /// The method once more behind itself, with the calls that it needs where its arguments are split.
  void weave_second_form(Function& function, const std::vector<Placement>& placements) {
    Editor editor(family_.text, function);
    weave_placements(editor, function, placements);
    editor.replace(function.where, on_shards(function));
    const uint32_t begin = next_code(family_.text, function.text.front().slice.begin);
    function.method_after = "/// " + function.name + " where what it is given is split over tensor-parallel ranks.\n" +
                            edited(family_.text, editor.finish(), begin, function.body.span.end);
  }

  static std::string on_shards(const Function& function) { return function.name + "_on_shards"; }

  void weave_placements(Editor& editor, const Function& function, const std::vector<Placement>& placements) {
    std::set<std::string> names = names_in(function);
    std::set<std::pair<std::string, uint64_t>> done;
    for (const Placement& placement : placements) {
      const Expr& expr = *placement.expr;
      switch (placement.call) {
        case Call::enter:
          if (placement.variable.empty())
            editor.wrap(expr.span, "tp::enter(", ")");
          else if (done.emplace(placement.variable, placement.version).second)
            weave_enter(editor, function, placements, placement, names);
          break;
        case Call::exit:
          weave_layer(editor, expr, "tp::exit(");
          break;
        case Call::partial:
          weave_layer(editor, expr, "tp::partial(");
          break;
        case Call::sum:
          editor.wrap(expr.span, "tp::exit(", ")");
          break;
        case Call::embedding:
          weave_layer(editor, expr, "tp::embedding(");
          break;
        case Call::layer_norm:
          weave_layer(editor, expr, "tp::layer_norm(");
          break;
        case Call::on_shards:
          if (interpretation_.at(placement.callee).on_shards) weave_call_on_shards(editor, expr, *placement.callee);
          break;
        case Call::cross_entropy:
        case Call::rms_norm:
        case Call::alibi_slopes: {  // what has the same name in tp
          const std::string callee = editor.source({expr.span.file, expr.span.begin, expr.operands[0].span.begin});
          const size_t name = callee.find(unqualified(expr.name));
          editor.replace({expr.span.file, expr.span.begin, expr.span.begin + static_cast<uint32_t>(name)}, "tp::");
          break;
        }
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

  static std::set<std::string> names_in(const Function& function) {
    std::set<std::string> names;
    for (const Parameter& parameter : function.parameters) names.insert(parameter.name);
    Body body = function.body;
    for_each_stmt(body, [&](Stmt& statement) { names.insert(statement.names.begin(), statement.names.end()); });
    return names;
  }

  /// One `auto x_tp = tp::enter(x);` for all layers that read the same value; in place where there is no room for a
  /// statement or the name is taken.
  void weave_enter(Editor& editor, const Function& function, const std::vector<Placement>& placements,
                   const Placement& first, std::set<std::string>& names) {
    std::vector<const Expr*> uses;
    for (const Placement& other : placements)
      if (other.call == Call::enter && other.variable == first.variable && other.version == first.version)
        uses.push_back(other.expr);
    const auto [block, index] = common_block(function.body.statements, uses);
    const Stmt& statement = (*block)[index];
    const std::string name = first.variable + "_tp";
    if (editor.is_unbraced(statement) || !names.insert(name).second) {
      for (const Expr* use : uses) editor.wrap(use->span, "tp::enter(", ")");
      return;
    }
    editor.insert_before(statement, "auto " + name + " = tp::enter(" + first.variable + ");");
    for (const Expr* use : uses) editor.wrap(use->span, "", "_tp");
  }

  /// `layer(x)` or `layer->forward(x)` becomes `call(layer, x)`.
  static void weave_layer(Editor& editor, const Expr& expr, const std::string& call) {
    const Expr &layer = expr.operands[0], &argument = expr.operands[1];
    const std::string opening = editor.source({expr.span.file, layer.span.end, argument.span.begin});
    const auto open = layer.span.end + static_cast<uint32_t>(opening.find('('));
    editor.wrap(expr.span, call, "");
    editor.replace({expr.span.file, layer.span.end, open + 1}, ", ");
  }

  /// `norm(x)`, `norm->forward(x)` or `forward(x)` becomes a call of the method's second form.
  static void weave_call_on_shards(Editor& editor, const Expr& expr, const Function& callee) {
    const Expr& object = expr.operands[0];
    const bool is_self = object.kind == Expr::Kind::self;
    const uint32_t begin = is_self ? expr.span.begin : object.span.end;
    const std::string rest = editor.source({expr.span.file, begin, expr.span.end});
    const size_t open = rest.find('('), name = rest.substr(0, open).rfind(callee.name);
    if (name == std::string::npos) {
      editor.replace({expr.span.file, begin, begin}, "->" + on_shards(callee));
      return;
    }
    const uint32_t at = begin + static_cast<uint32_t>(name);
    editor.replace({expr.span.file, at, at + static_cast<uint32_t>(callee.name.size())}, on_shards(callee));
  }

  // ---- Pipeline ----

  static std::string return_from_stage(const Function& function, const std::string& carried) {
    return "if (!pp::is_last()) return " +
           (function.return_type == "Outputs" ? "pp::pass_on(" + carried + ");" : carried + ";");
  }

  static void weave_pipeline(Editor& editor, const Function& function, const MethodFindings& found) {
    const std::vector<Stmt>& statements = function.body.statements;
    if (found.walk) {
      const Walk& walk = *found.walk;
      weave_feed(editor, statements, walk);
      if (walk.list) {
        const Expr& range = statements[walk.loop].exprs[0];
        const Expr& list = range.kind == Expr::Kind::op ? range.operands[0] : range;
        editor.replace({range.span.file, range.span.begin, list.span.begin}, "pp::local(");
        editor.wrap(list.span, "", ")");
      }
      if (walk.cut) editor.insert_before(statements[*walk.cut], return_from_stage(function, walk.carried));
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

  /// Behind the first stage the carried value is received instead of made.
  static void weave_feed(Editor& editor, const std::vector<Stmt>& statements, const Walk& walk) {
    const Stmt& first = statements[walk.feed.front()];
    if (walk.feed.size() == 1 && first.kind == Stmt::Kind::declare && first.names.size() == 1 &&
        first.exprs[0].type == "at::Tensor" && first.exprs[0].kind != Expr::Kind::list) {
      editor.wrap(first.exprs[0].span, "pp::is_first() ? ", " : pp::received()");
      return;
    }
    std::string opening;
    for (const size_t i : walk.feed) {
      const Stmt& statement = statements[i];
      if (statement.kind != Stmt::Kind::declare || statement.names != std::vector<std::string>{walk.carried}) continue;
      opening = "Tensor " + walk.carried + ";\n";
      editor.replace({statement.span.file, statement.span.begin, statement.exprs[0].span.begin}, walk.carried + " = ");
    }
    editor.insert_before(first, opening + "if (pp::is_first()) {");
    editor.insert_after(statements[walk.feed.back()], "} else {\n" + walk.carried + " = pp::received();\n}");
  }

  // ---- Units ----

  /// A unit's `forward` hands its own body, now `forward_unit`, to the runtime.
  void weave_unit(Editor& editor, const Class& owner, Function& function) {
    const std::string signature = editor.source({function.where.file, function.where.end, function.body.span.begin});
    std::string arguments;
    for (const Parameter& parameter : function.parameters) arguments += ", " + parameter.name;
    const std::string wrapper = function.return_type + " forward" + signature + "{\nreturn fsdp::unit(*this, &" +
                                owner.name + "::forward_unit" + arguments + ");\n}";
    editor.replace(function.where, "forward_unit");
    function.method_before = wrapper;
  }

  // ---- Ties ----

  void weave_ties(const Class& owner, Function& constructor) {
    const std::string config = config_in(owner, constructor);
    const auto tie = [&](const std::string& module, const std::string& parameter, const std::string& source) {
      constructor.appended_statements.push_back("if (" + config + "." + kTieFlag + ") tie_parameter(*" + module + ", " +
                                                parameter + ", " + source + ");");
    };
    for (const Field& field : owner.fields) {
      for (const Annotation& tied : field.annotations) {
        if (tied.kind == "tied_to" && tied.arguments.size() == 1) {
          const bool is_parameter = field.type == "Tensor";
          tie(is_parameter ? "this" : field.name, is_parameter ? field.name : field.name + "->weight",
              tied.arguments[0]);
        } else if (tied.kind == "ties" && tied.arguments.size() == 2) {
          const std::string inner = field.name + "->" + inside(tied.arguments[0]);
          tie(inner.substr(0, inner.rfind("->")), inner, tied.arguments[1]);
        }
      }
    }
  }

  std::string config_in(const Class& owner, const Function& constructor) const {
    const auto is_config = [&](const std::string& type) {
      return std::any_of(family_.classes.begin(), family_.classes.end(),
                         [&](const Class& c) { return c.is_config && type.find(c.name) != std::string::npos; });
    };
    for (const Parameter& parameter : constructor.parameters)
      if (is_config(parameter.type)) return parameter.name;
    for (const Field& field : owner.fields)
      if (is_config(field.type)) return field.name;
    return "config";
  }

  FamilyModel& family_;
  const Interpretation& interpretation_;
};

void check_units(const FamilyModel& family, std::vector<Finding>& findings) {
  for (const Class& owner : family.classes) {
    if (!find_annotation(owner.annotations, "fsdp_unit")) continue;
    const Function* forward = nullptr;
    for (const Function& function : owner.functions) {
      if (function.is_constructor || function.name != "forward") continue;
      if (forward)
        findings.push_back({true,
                            function.where,
                            "an FSDP_UNIT class with two methods named forward",
                            "keep one, and give the other a name of its own",
                            {{false, forward->where, "the first one is here", "", {}}}});
      forward = &function;
      const std::string signature =
          family.text.substr(function.where.end, function.body.span.begin - function.where.end);
      if (signature.substr(signature.rfind(')') + 1).find("const") != std::string::npos)
        findings.push_back({true,
                            function.where,
                            "the forward of an FSDP_UNIT class is const",
                            "drop the const: the runtime fills and frees its parameters",
                            {}});
    }
    if (!forward)
      findings.push_back({true,
                          owner.where,
                          "FSDP_UNIT marks " + owner.name + ", which has no forward",
                          "mark the class whose forward runs the layers",
                          {}});
  }
}

void check_walked(const ModuleNode& root, const Interpretation& interpretation, std::vector<Finding>& findings) {
  for_each_node(root, [&](const ModuleNode& node) {
    if (node.kind != ModuleNode::Kind::list || !find_annotation(node.field->annotations, "pp_split")) return;
    for (const auto& [function, found] : interpretation)
      if (found.walk && found.walk->list == node.field) return;
    findings.push_back({true,
                        node.field->where,
                        "no forward walks the PP_SPLIT list " + node.field->name + " in order",
                        "walk it: for (auto& element : *" + node.field->name + ")",
                        {}});
  });
}

/// What the walk over `root`'s split list carries from stage to stage, or what crosses between its towers.
std::optional<EntryPlan::StageCut> stage_cut(const ModuleNode& root, const Interpretation& interpretation) {
  std::optional<EntryPlan::StageCut> cut;
  for_each_node(root, [&](const ModuleNode& node) {
    if (!node.field) return;
    for (const auto& [function, found] : interpretation) {
      if (!found.walk || (found.walk->list != node.field && found.walk->tower != node.field)) continue;
      cut.emplace();
      cut->carried = found.walk->carried;
      const Value& value = found.carried;
      if (!value.rank) continue;
      cut->shape.assign(static_cast<size_t>(*value.rank), "?");
      if (*value.rank > 1) cut->shape[0] = "batch";
      if (*value.rank == 3) cut->shape[1] = "seq";
      if (!value.last_size.empty()) cut->shape.back() = value.last_size;
    }
  });
  return cut;
}

struct Tree {
  std::unique_ptr<ModuleNode> root;
  bool is_entry;
};

/// Of the entries, and behind them of all module classes.
std::vector<Tree> module_trees(const FamilyModel& family) {
  std::vector<Tree> trees;
  for (const bool is_entry : {true, false})
    for (const Class& owner : family.classes)
      if (!owner.holder.empty() && (!is_entry || find_annotation(owner.annotations, "entry")))
        trees.push_back({build_tree(family, owner), is_entry});
  return trees;
}

/// What running all methods on shard types says.
struct Run {
  Interpretation interpretation;
  std::vector<EntryPlan::Proof> proofs;  // of the entries
  std::vector<Finding> findings;
};

Run run_methods(const FamilyModel& family, const std::vector<Tree>& trees, OpenSums& sums) {
  Run run;
  for (const Tree& tree : trees) {
    // Where sums are looked for, one entry shows those of the others, which have most of their classes in common.
    if (tree.is_entry && (!sums.looking || &tree == &trees.front()))
      run.proofs.push_back(interpret_entry(family, *tree.root, sums, run.interpretation, run.findings));
    else
      interpret_unreached(family, *tree.root, sums, run.interpretation, run.findings);
  }
  return run;
}

}  // namespace

std::vector<Finding> weave(FamilyModel& family) {
  std::vector<Finding> findings;
  check_annotations(family, findings);
  check_units(family, findings);

  const std::vector<Tree> trees = module_trees(family);
  OpenSums sums{.calls = {}, .looking = true};
  run_methods(family, trees, sums);
  sums.looking = false;
  Run run = run_methods(family, trees, sums);
  if (!run.findings.empty() && !sums.calls.empty()) run = run_methods(family, trees, sums = {});
  std::vector<EntryPlan> plans;
  for (const Tree& tree : trees) {
    if (!tree.is_entry) continue;
    EntryPlan& plan = plans.emplace_back(derive_plan(family, *tree.root, findings));
    plan.proof = std::move(run.proofs[plans.size() - 1]);
    if (!plan.split_list.empty() || plan.two_stages) plan.cut = stage_cut(*tree.root, run.interpretation);
    if (findings.empty() && run.findings.empty()) check_walked(*tree.root, run.interpretation, findings);
  }
  findings.insert(findings.end(), run.findings.begin(), run.findings.end());
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.where.begin < b.where.begin; });
  const bool failed =
      std::any_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.is_error; });
  if (failed) return findings;
  family.plans = std::move(plans);
  Weaver(family, run.interpretation).weave();
  return findings;
}

}  // namespace modgen
