#include "generator/weave/pipeline.h"

#include <algorithm>
#include <set>
#include <span>

namespace modgen {
namespace {

bool mentions(const Expr& expr, uint32_t variable) {
  if (expr.kind == Expr::Kind::local && expr.variable == variable) return true;
  return std::any_of(expr.operands.begin(), expr.operands.end(),
                     [&](const Expr& operand) { return mentions(operand, variable); });
}

/// Local variables by name, and by number where they share one.
struct Local {
  std::string name;
  uint32_t variable = 0;
  auto operator<=>(const Local&) const = default;
};
using Locals = std::set<Local>;

bool holds(const Locals& locals, uint32_t variable) {
  return std::any_of(locals.begin(), locals.end(), [&](const Local& one) { return one.variable == variable; });
}

/// The local variable that `expr` is, is a member of or reaches into; null where there is none.
const Expr* local_in(const Expr& expr) {
  if (expr.kind == Expr::Kind::local) return &expr;
  const bool goes_on = expr.kind == Expr::Kind::field || expr.kind == Expr::Kind::method || expr.name == "[]";
  return goes_on && !expr.operands.empty() ? local_in(expr.operands[0]) : nullptr;
}

void add_assigned(const Stmt& statement, Locals& out);

/// Locals that `expr` assigns, also in place ("x.add_(…)"), in a part ("x.first = …") or through a reference.
void add_assigned(const Expr& expr, Locals& out) {
  const auto add = [&](const Expr& target) {
    if (const Expr* local = local_in(target)) out.insert({local->name, local->variable});
  };
  const bool counts = expr.kind == Expr::Kind::op && (expr.name == "++" || expr.name == "--");
  if ((changes_first(expr) || counts) && !expr.operands.empty()) {
    const Expr& target = expr.operands[0];
    if (target.kind == Expr::Kind::call && target.name == "std::tie")
      std::for_each(target.operands.begin(), target.operands.end(), add);
    else
      add(target);
  }
  if (expr.callee && !(expr.kind == Expr::Kind::op && is_assignment(expr))) {
    for (const size_t i : expr.callee->changes)
      if (i < expr.operands.size()) add(expr.operands[i]);
    const bool is_container = expr.callee->home == Callee::Home::standard && !expr.is_lvalue;
    if (expr.kind == Expr::Kind::method && expr.callee->changes_object && is_container) add(expr.operands[0]);
  }
  if (expr.body)
    for (const Stmt& statement : expr.body->statements) add_assigned(statement, out);
  for (const Expr& operand : expr.operands) add_assigned(operand, out);
}

void add_assigned(const Stmt& statement, Locals& out) {
  Locals assigned, declared;
  for (const Expr& expr : statement.exprs) add_assigned(expr, assigned);
  for (const auto* body : {&statement.then_body, &statement.else_body}) {
    for (const Stmt& inner : *body) {
      add_assigned(inner, assigned);
      if (inner.kind != Stmt::Kind::declare && inner.kind != Stmt::Kind::range_for) continue;
      for (size_t i = 0; i < inner.names.size(); ++i) declared.insert({inner.names[i], inner.variables[i]});
    }
  }
  for (const Local& local : declared) assigned.erase(local);
  out.insert(assigned.begin(), assigned.end());
}

/// What a statement gives to those after it.
Locals definitions(const Stmt& statement) {
  Locals locals;
  add_assigned(statement, locals);
  for (size_t i = 0; statement.kind == Stmt::Kind::declare && i < statement.names.size(); ++i)
    locals.insert({statement.names[i], statement.variables[i]});
  return locals;
}

/// The expression of the list in the range of a range-for.
const Expr& list_in(const Expr& range) {
  return range.kind == Expr::Kind::op && range.name == "*" ? range.operands[0] : range;
}

void find_nested(const FindSplitList& split_list, const std::vector<Stmt>& statements, std::vector<Finding>& findings) {
  for (const Stmt& statement : statements) {
    for (const auto* body : {&statement.then_body, &statement.else_body}) {
      for (const Stmt& inner : *body)
        if (inner.kind == Stmt::Kind::range_for && split_list(list_in(inner.exprs[0])))
          findings.push_back({true,
                              inner.exprs[0].span,
                              "the walk over the PP_SPLIT list is inside another statement, where stages cannot be cut",
                              "walk it in the method's outermost block",
                              {}});
      find_nested(split_list, *body, findings);
    }
  }
}

/// Whether `expr` reads `variable` for more than what it has in common with what other stages hold in its place.
bool reads_value(const Expr& expr, uint32_t variable) {
  static const std::set<std::string> common = {"size",    "sizes",   "dim",     "dtype", "scalar_type",      "device",
                                               "options", "defined", "is_cuda", "numel", "is_floating_point"};
  if (expr.kind == Expr::Kind::local) return expr.variable == variable;
  const bool asks = expr.kind == Expr::Kind::method && common.contains(expr.name) && !expr.operands.empty() &&
                    expr.operands[0].kind == Expr::Kind::local;
  return std::any_of(expr.operands.begin() + (asks ? 1 : 0), expr.operands.end(),
                     [&](const Expr& operand) { return reads_value(operand, variable); });
}

/// The first expression below `statement` that reads `variable`'s value.
const Expr* first_reader(const Stmt& statement, uint32_t variable) {
  for (const Expr& expr : statement.exprs)
    if (reads_value(expr, variable)) return &expr;
  for (const auto* body : {&statement.then_body, &statement.else_body})
    for (const Stmt& inner : *body)
      if (const Expr* found = first_reader(inner, variable)) return found;
  return nullptr;
}

/// A declaration that makes a reference to `variable`, or null.
const Stmt* reference_to(const std::vector<Stmt>& statements, uint32_t variable) {
  for (const Stmt& statement : statements) {
    const Expr* bound = statement.kind == Stmt::Kind::declare && statement.binding != Binding::value &&
                                !statement.exprs.empty() && statement.exprs[0].is_lvalue
                            ? local_in(statement.exprs[0])
                            : nullptr;
    if (bound && bound->variable == variable) return &statement;
    for (const auto* body : {&statement.then_body, &statement.else_body})
      if (const Stmt* found = reference_to(*body, variable)) return found;
  }
  return nullptr;
}

std::string listed(const Locals& locals) {
  std::string text;
  for (const Local& local : locals) text += (text.empty() ? "" : ", ") + local.name;
  return text;
}

/// Statements before number `end` that make the carried value, and those that serve nothing else.
std::vector<size_t> feeding(const std::vector<Stmt>& statements, size_t end, uint32_t carried) {
  std::set<size_t> feed;
  for (size_t i = 0; i < end; ++i)
    if (holds(definitions(statements[i]), carried) &&
        !(statements[i].kind == Stmt::Kind::declare && statements[i].exprs.empty()))
      feed.insert(i);
  if (feed.empty()) return {};
  for (bool grew = true; grew;) {
    grew = false;
    for (size_t i = 0; i < *feed.rbegin(); ++i) {
      if (feed.contains(i) || statements[i].kind != Stmt::Kind::declare || statements[i].exprs.empty()) continue;
      const Locals locals = definitions(statements[i]);
      bool used_in_feed = false, used_elsewhere = false;
      for (size_t j = i + 1; j < statements.size(); ++j)
        for (const Local& local : locals)
          if (mentions(statements[j], local.variable)) (feed.contains(j) ? used_in_feed : used_elsewhere) = true;
      if (used_in_feed && !used_elsewhere) grew = feed.insert(i).second || grew;
    }
  }
  return {feed.begin(), feed.end()};
}

/// A statement of the feed that declares `variable` together with others, or null.
const Stmt* declared_with_others(const std::vector<Stmt>& statements, const std::vector<size_t>& feed,
                                 uint32_t variable) {
  for (const size_t i : feed) {
    const std::vector<uint32_t>& declared = statements[i].variables;
    if (std::find(declared.begin(), declared.end(), variable) == declared.end()) continue;
    for (const size_t other : {i - 1, i + 1})
      if (other < statements.size() && statements[other].span == statements[i].span) return &statements[i];
  }
  return nullptr;
}

/// The first of `statements` that ends a loop around them or the method, or null.
const Stmt* early_end(std::span<const Stmt> statements, bool in_loop) {
  for (const Stmt& statement : statements) {
    if (statement.kind == Stmt::Kind::ret || (in_loop && statement.kind == Stmt::Kind::leave)) return &statement;
    const bool breaks_inside = statement.kind == Stmt::Kind::range_for || statement.kind == Stmt::Kind::loop ||
                               statement.kind == Stmt::Kind::choice;
    for (const auto* body : {&statement.then_body, &statement.else_body})
      if (const Stmt* found = early_end(*body, in_loop && !breaks_inside)) return found;
  }
  return nullptr;
}

/// Whether the statements of the feed make one tensor and nothing else that is read later; adds what hinders it.
bool makes_one_tensor(const std::vector<Stmt>& statements, const Traversal& walk, std::vector<Finding>& findings) {
  const auto reject = [&](const Stmt& at, std::string message) {
    findings.push_back({true, at.span, std::move(message), "a stage hands on one tensor", {}});
    return false;
  };
  for (size_t i = 0; i <= walk.feed.back(); ++i) {
    const Stmt& statement = statements[i];
    const bool is_fed = std::ranges::binary_search(walk.feed, i);
    if (statement.kind == Stmt::Kind::declare && std::ranges::count(statement.variables, walk.variable) > 0) {
      if (statement.names.size() > 1)
        return reject(statement, "the first pipeline stage makes several values: " + listed(definitions(statement)));
      if (statement.canonical != "at::Tensor")
        return reject(statement, walk.carried + ", which the first pipeline stage hands on, is not a Tensor");
    }
    if (!is_fed) continue;
    const Locals locals = definitions(statement);
    for (size_t j = i + 1; j < statements.size(); ++j)
      for (const Local& local : locals)
        if (local.variable != walk.variable && !std::ranges::binary_search(walk.feed, j) &&
            mentions(statements[j], local.variable))
          return reject(statement, "the first pipeline stage makes several values: " + listed(locals));
  }
  return true;
}

/// Whether every statement of the feed comes after the one before; adds what interrupts it otherwise.
bool is_adjacent(const std::vector<Stmt>& statements, const Traversal& walk, std::vector<Finding>& findings) {
  for (size_t i = 1; i < walk.feed.size(); ++i) {
    if (walk.feed[i] == walk.feed[i - 1] + 1) continue;
    findings.push_back({true,
                        statements[walk.feed[i]].span,
                        "what makes " + walk.carried + " for the first stage is interrupted by other statements",
                        "put the statements that make it next to each other",
                        {}});
    return false;
  }
  return true;
}

constexpr const char* kOnlyFirst =
    "use it only for what makes the value that the first stage hands on, or do not mark it PP_FIRST";
constexpr const char* kOnlyLast =
    "use it only after what makes the value that the first stage hands on, or do not mark it PP_LAST";

/// That `read` stands where the stage that holds it does not run.
Finding misplaced(const StageReads::Read& read, bool is_first, const std::string& where) {
  return {true,
          read.at->span,
          read.node->path + " is held by the " + (is_first ? "first" : "last") + " pipeline stage alone, but is used " +
              where,
          is_first ? kOnlyFirst : kOnlyLast,
          {}};
}

/// Checks what stands around the call of a method that is cut, in statement `cut`.
void check_around(size_t cut, const std::vector<StageReads>& reads, std::vector<Finding>& findings) {
  for (size_t i = 0; i < reads.size(); ++i) {
    if (i != cut && reads[i].first.at)
      findings.push_back(misplaced(reads[i].first, true, "beside the call in which the model is cut"));
    if (i < cut && reads[i].last.at)
      findings.push_back(misplaced(reads[i].last, false, "before the call in which the model is cut"));
  }
}

}  // namespace

bool mentions(const Stmt& statement, uint32_t variable) {
  if (std::any_of(statement.exprs.begin(), statement.exprs.end(),
                  [&](const Expr& expr) { return mentions(expr, variable); }))
    return true;
  for (const auto* body : {&statement.then_body, &statement.else_body})
    for (const Stmt& inner : *body)
      if (mentions(inner, variable)) return true;
  return false;
}

std::optional<Traversal> find_traversal(const FindSplitList& split_list, const Function& method,
                                        std::vector<Finding>& findings) {
  const std::vector<Stmt>& statements = method.body.statements;
  find_nested(split_list, statements, findings);
  std::optional<Traversal> walk;
  for (size_t i = 0; i < statements.size(); ++i) {
    if (statements[i].kind != Stmt::Kind::range_for) continue;
    const Field* list = split_list(list_in(statements[i].exprs[0]));
    if (!list) continue;
    if (walk) {
      findings.push_back({true,
                          statements[i].exprs[0].span,
                          "a second walk over a PP_SPLIT list in one method: a pipeline has one",
                          "mark one list PP_SPLIT, and walk it once",
                          {{false, statements[walk->loop].exprs[0].span, "the first walk is here", "", {}}}});
      return std::nullopt;
    }
    walk.emplace();
    walk->list = list;
    walk->loop = i;
  }
  if (!walk) return std::nullopt;

  const Stmt& loop = statements[walk->loop];
  const auto reject = [&](SourceSpan where, std::string message, std::string advice) -> std::optional<Traversal> {
    findings.push_back({true, where, std::move(message), std::move(advice), {}});
    return std::nullopt;
  };
  if (const Stmt* early = early_end(loop.then_body, /*in_loop=*/true))
    return reject(early->span,
                  "the walk over PP_SPLIT " + walk->list->name +
                      " ends early: the stages after this one would continue with their elements",
                  "walk over all elements, and decide in the loop what each does");
  Locals assigned;
  add_assigned(loop, assigned);
  std::erase_if(assigned, [&](const Local& local) {
    return std::find(loop.variables.begin(), loop.variables.end(), local.variable) != loop.variables.end();
  });
  if (assigned.empty())
    return reject(loop.exprs[0].span,
                  "the walk over PP_SPLIT " + walk->list->name + " carries no value from element to element",
                  "assign what an element returns to the variable that the next one reads");
  if (assigned.size() > 1)
    return reject(loop.exprs[0].span,
                  "the walk over PP_SPLIT " + walk->list->name + " carries several values: " + listed(assigned),
                  "a stage hands on one tensor");
  walk->carried = assigned.begin()->name;
  walk->variable = assigned.begin()->variable;

  if (const Stmt* reference = reference_to(statements, walk->variable))
    return reject(reference->span,
                  reference->names[0] + " is a reference to " + walk->carried + ", which stages receive",
                  "name " + walk->carried + " itself");

  walk->feed = feeding(statements, walk->loop, walk->variable);
  if (walk->feed.empty())
    return reject(loop.exprs[0].span,
                  "the value that the walk over PP_SPLIT " + walk->list->name + " carries, " + walk->carried +
                      ", is not made in this method",
                  "make it in a statement before the loop, so that stages after the first can receive it instead");
  if (!is_adjacent(statements, *walk, findings) || !makes_one_tensor(statements, *walk, findings)) return std::nullopt;
  if (const Stmt* shared = declared_with_others(statements, walk->feed, walk->variable))
    return reject(shared->span, walk->carried + " is made in one declaration with others",
                  "declare it in a statement of its own");

  if (const Stmt* early = early_end({statements.begin(), statements.begin() + static_cast<std::ptrdiff_t>(walk->loop)},
                                    /*in_loop=*/false))
    return reject(early->span, "this returns before the walk over PP_SPLIT " + walk->list->name,
                  "return after the walk, from what it carries");
  for (size_t i = walk->feed.back() + 1; i < walk->loop; ++i)
    if (const Expr* reader = first_reader(statements[i], walk->variable))
      return reject(reader->span,
                    walk->carried + " is read before the walk over PP_SPLIT " + walk->list->name +
                        ": stages after the first hold another value in it",
                    "ask it for its sizes or type alone, or compute this from the batch");

  for (size_t i = walk->loop + 1; i < statements.size() && !walk->cut; ++i)
    if (mentions(statements[i], walk->variable)) walk->cut = i;
  if (walk->cut && statements[*walk->cut].kind == Stmt::Kind::ret &&
      statements[*walk->cut].exprs[0].kind == Expr::Kind::local)
    walk->cut.reset();
  return walk;
}

namespace {

/// What is marked for stages among `node` and what holds it, outermost first.
std::vector<std::pair<const ModuleNode*, std::string>> marks(const ModuleNode& node) {
  std::vector<std::pair<const ModuleNode*, std::string>> found;
  for (const ModuleNode* at = &node; at && at->field; at = at->parent) {
    if (at->parent && at->parent->field == at->field)
      continue;  // an element, or one alternative, is marked as the whole
    for (const char* kind : {"pp_first", "pp_split", "pp_last", "pp_all"})
      if (find_annotation(at->field->annotations, kind)) found.emplace(found.begin(), at, kind);
  }
  return found;
}

bool holds_list(const ModuleNode& node, bool is_split) {
  bool found = false;
  for_each_node(node, [&](const ModuleNode& inner) {
    found |= inner.kind == ModuleNode::Kind::list &&
             (!is_split || find_annotation(inner.field->annotations, "pp_split") != nullptr);
  });
  return found;
}

}  // namespace

Towers find_stacks(const ModuleNode& root) {
  std::array<bool, 2> found{};
  Towers towers;
  bool is_split = false;
  for_each_node(root, [&](const ModuleNode& node) {
    const auto marked = marks(node);
    if (marked.size() != 1 || marked[0].first != &node) return;
    const std::string& kind = marked[0].second;
    is_split |= kind == "pp_split";
    if (node.kind == ModuleNode::Kind::list || !holds_list(node, false)) return;
    for (const size_t tower : {0, 1}) {
      if (kind != (tower == 0 ? "pp_first" : "pp_last")) continue;
      found[tower] = true;
      towers.are_split[tower] |= holds_list(node, true);
    }
  });
  towers.exist = found[0] && found[1] && !is_split;
  return towers;
}

StagePosition find_stage_position(const ModuleNode& node, const Towers& towers) {
  const auto marked = marks(node);
  if (marked.empty()) return {};
  const auto [top, kind] = marked.front();
  StagePosition place{kind, 0, top->field, top->field};
  for (const auto& [inner, inner_kind] : marked)
    if (inner_kind == "pp_all") return {inner_kind, 0, inner->field, top->field};
  if (!towers.exist) return place;
  place.tower = kind == "pp_first" ? 0 : 1;
  if (!towers.are_split[place.tower]) return place;
  if (marked.size() > 1)
    place.kind = marked[1].second, place.marked = marked[1].first->field;
  else
    place.kind = holds_list(*top, true) ? "" : "pp_last";
  return place;
}

std::optional<Traversal> find_cut(const Function& method, const std::vector<StageReads>& reads,
                                  std::vector<Finding>& findings) {
  const std::vector<Stmt>& statements = method.body.statements;
  const auto reject = [&](SourceSpan where, std::string message, std::string advice) -> std::optional<Traversal> {
    findings.push_back({true, where, std::move(message), std::move(advice), {}});
    return std::nullopt;
  };
  std::optional<size_t> first, last;  // the last statement that the first stage runs, the first that the last one runs
  for (size_t i = 0; i < reads.size(); ++i) {
    if (reads[i].is_cut) {
      check_around(i, reads, findings);
      return std::nullopt;
    }
    if (reads[i].first.at) first = i;
    if (reads[i].last.at && !last) last = i;
  }
  if (!first || !last) return std::nullopt;
  for (const StageReads& read : reads)
    if (read.first.at && read.last.at)
      return reject(read.last.at->span,
                    read.last.node->path +
                        ", which the last pipeline stage alone holds, is used in one statement with " +
                        read.first.node->path + ", which the first one holds",
                    "give what the first stage makes a name in a statement of its own");

  if (*last < *first) {
    const bool is_late = std::any_of(reads.begin(), reads.begin() + static_cast<std::ptrdiff_t>(*last),
                                     [](const StageReads& read) { return read.first.at != nullptr; });
    findings.push_back(is_late ? misplaced(reads[*first].first, true, "after what the last one runs")
                               : misplaced(reads[*last].last, false, "before what the first one runs"));
    return std::nullopt;
  }

  Traversal walk;
  walk.tower = reads[*first].first.marked;
  const Locals made = definitions(statements[*first]);
  if (made.empty())
    return reject(reads[*first].first.at->span,
                  "what " + walk.tower->name + " makes for the last pipeline stage has no name",
                  "assign it to a variable in a statement of its own");
  walk.carried = made.begin()->name;
  walk.variable = made.begin()->variable;
  walk.feed = feeding(statements, *first + 1, walk.variable);
  for (size_t i = 0; i < *first; ++i)
    if (reads[i].first.at && std::find(walk.feed.begin(), walk.feed.end(), i) == walk.feed.end()) {
      const Locals beside = definitions(statements[i]);
      return reject(reads[i].first.at->span,
                    "the first pipeline stage makes " + (beside.empty() ? "another value" : listed(beside)) +
                        " beside " + walk.carried + ", which it hands on",
                    "a stage hands on one tensor: make " + walk.carried + " of both");
    }
  if (!makes_one_tensor(statements, walk, findings)) return std::nullopt;
  if (!is_adjacent(statements, walk, findings)) return std::nullopt;
  if (const Stmt* shared = declared_with_others(statements, walk.feed, walk.variable))
    return reject(shared->span, walk.carried + " is made in one declaration with others",
                  "declare it in a statement of its own");
  walk.cut = *first + 1;
  return walk;
}

}  // namespace modgen
