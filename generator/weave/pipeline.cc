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

/// A local variable, ordered by name and then by number.
struct Local {
  std::string name;
  uint32_t variable = 0;
  auto operator<=>(const Local&) const = default;
};
using Locals = std::set<Local>;

bool holds(const Locals& locals, uint32_t variable) {
  return std::any_of(locals.begin(), locals.end(), [&](const Local& local) { return local.variable == variable; });
}

/// The local variable that `expr` names, or whose member or element it names; null if there is none.
const Expr* local_in(const Expr& expr) {
  if (expr.kind == Expr::Kind::local) return &expr;
  const bool is_access = expr.kind == Expr::Kind::field || expr.kind == Expr::Kind::method || expr.name == "[]";
  return is_access && !expr.operands.empty() ? local_in(expr.operands[0]) : nullptr;
}

void add_assigned(const Stmt& statement, Locals& out);

/// Collects the locals that `expr` assigns, including in-place ("x.add_(…)"), in part ("x.first = …") or through a
/// reference.
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

/// Locals that a statement defines or assigns for the statements after it.
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
                              "the loop over the PP_SPLIT list is inside another statement, where stages cannot be cut",
                              "move the loop to the method's outermost block",
                              {}});
      find_nested(split_list, *body, findings);
    }
  }
}

/// Whether `expr` reads the value of `variable`, not just properties that are the same on all stages. Its sizes are
/// not: an element of the list may change them.
bool reads_value(const Expr& expr, uint32_t variable) {
  static const std::set<std::string> common = {"dtype",   "scalar_type", "device",           "options",
                                               "defined", "is_cuda",     "is_floating_point"};
  if (expr.kind == Expr::Kind::local) return expr.variable == variable;
  const bool reads_property = expr.kind == Expr::Kind::method && common.contains(expr.name) && !expr.operands.empty() &&
                              expr.operands[0].kind == Expr::Kind::local;
  return std::any_of(expr.operands.begin() + (reads_property ? 1 : 0), expr.operands.end(),
                     [&](const Expr& operand) { return reads_value(operand, variable); });
}

/// The first expression in `statement` that reads the value of `variable`, or null.
const Expr* first_reader(const Stmt& statement, uint32_t variable) {
  for (const Expr& expr : statement.exprs)
    if (reads_value(expr, variable)) return &expr;
  for (const auto* body : {&statement.then_body, &statement.else_body})
    for (const Stmt& inner : *body)
      if (const Expr* found = first_reader(inner, variable)) return found;
  return nullptr;
}

/// A declaration that binds a reference to `variable`, or null.
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

/// Statements before index `end` that compute the carried value, and declarations that serve only those statements.
std::vector<size_t> find_feed(const std::vector<Stmt>& statements, size_t end, uint32_t carried) {
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

/// The first of `statements` that leaves the enclosing loop or the method, or null.
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

/// Checks that the feed computes one tensor and no other value that is read later. Reports the reason otherwise.
bool computes_one_tensor(const std::vector<Stmt>& statements, const Traversal& traversal,
                         std::vector<Finding>& findings) {
  const auto reject = [&](const Stmt& at, std::string message) {
    findings.push_back({true, at.span, std::move(message), "a stage passes on one tensor", {}});
    return false;
  };
  for (size_t i = 0; i <= traversal.feed.back(); ++i) {
    const Stmt& statement = statements[i];
    const bool is_fed = std::ranges::binary_search(traversal.feed, i);
    if (statement.kind == Stmt::Kind::declare && std::ranges::count(statement.variables, traversal.variable) > 0) {
      if (statement.names.size() > 1)
        return reject(statement, "the first pipeline stage computes several values: " + listed(definitions(statement)));
      if (statement.canonical != "at::Tensor")
        return reject(statement, traversal.carried + ", which the first pipeline stage passes on, is not a Tensor");
    }
    if (!is_fed) continue;
    const Locals locals = definitions(statement);
    for (size_t j = i + 1; j < statements.size(); ++j)
      for (const Local& local : locals)
        if (local.variable != traversal.variable && !std::ranges::binary_search(traversal.feed, j) &&
            mentions(statements[j], local.variable))
          return reject(statement, "the first pipeline stage computes several values: " + listed(locals));
  }
  return true;
}

/// Checks that the feed's statements are adjacent. Reports the first interruption otherwise.
bool is_adjacent(const std::vector<Stmt>& statements, const Traversal& traversal, std::vector<Finding>& findings) {
  for (size_t i = 1; i < traversal.feed.size(); ++i) {
    if (traversal.feed[i] == traversal.feed[i - 1] + 1) continue;
    findings.push_back(
        {true,
         statements[traversal.feed[i]].span,
         "the computation of " + traversal.carried + " for the first stage is interrupted by other statements",
         "put the statements that compute it next to each other",
         {}});
    return false;
  }
  return true;
}

constexpr const char* kOnlyFirst =
    "use it only to compute the value that the first stage passes on, or do not mark it PP_FIRST";
constexpr const char* kOnlyLast =
    "use it only after the value that the first stage passes on is computed, or do not mark it PP_LAST";

/// The error that `read` is in code that does not run on the stage that holds the module.
Finding misplaced(const StageReads::Read& read, bool is_first, const std::string& where) {
  return {true,
          read.at->span,
          read.node->path + " is held by the " + (is_first ? "first" : "last") + " pipeline stage alone, but is used " +
              where,
          is_first ? kOnlyFirst : kOnlyLast,
          {}};
}

/// Checks the reads of the statements around statement `cut`, which calls a method that is cut.
void check_around(size_t cut, const std::vector<StageReads>& reads, std::vector<Finding>& findings) {
  for (size_t i = 0; i < reads.size(); ++i) {
    if (i != cut && reads[i].first.at)
      findings.push_back(misplaced(reads[i].first, true, "outside the call in which the model is cut"));
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
  std::optional<Traversal> traversal;
  for (size_t i = 0; i < statements.size(); ++i) {
    if (statements[i].kind != Stmt::Kind::range_for) continue;
    const Field* list = split_list(list_in(statements[i].exprs[0]));
    if (!list) continue;
    if (traversal) {
      findings.push_back({true,
                          statements[i].exprs[0].span,
                          "a second loop over a PP_SPLIT list in one method: a pipeline has one",
                          "mark one list PP_SPLIT, and loop over it once",
                          {{false, statements[traversal->loop].exprs[0].span, "the first loop is here", "", {}}}});
      return std::nullopt;
    }
    traversal.emplace();
    traversal->list = list;
    traversal->loop = i;
  }
  if (!traversal) return std::nullopt;

  const Stmt& loop = statements[traversal->loop];
  const auto reject = [&](SourceSpan where, std::string message, std::string advice) -> std::optional<Traversal> {
    findings.push_back({true, where, std::move(message), std::move(advice), {}});
    return std::nullopt;
  };
  if (const Stmt* early = early_end(loop.then_body, /*in_loop=*/true))
    return reject(early->span,
                  "the loop over PP_SPLIT " + traversal->list->name +
                      " ends early: the stages after this one would continue with their elements",
                  "loop over all elements, and decide in the loop body what each does");
  Locals assigned;
  add_assigned(loop, assigned);
  std::erase_if(assigned, [&](const Local& local) {
    return std::find(loop.variables.begin(), loop.variables.end(), local.variable) != loop.variables.end();
  });
  if (assigned.empty())
    return reject(loop.exprs[0].span,
                  "the loop over PP_SPLIT " + traversal->list->name + " carries no value from element to element",
                  "assign an element's result to the variable that the next element reads");
  if (assigned.size() > 1)
    return reject(loop.exprs[0].span,
                  "the loop over PP_SPLIT " + traversal->list->name + " carries several values: " + listed(assigned),
                  "a stage passes on one tensor");
  traversal->carried = assigned.begin()->name;
  traversal->variable = assigned.begin()->variable;

  if (const Stmt* reference = reference_to(statements, traversal->variable))
    return reject(reference->span,
                  reference->names[0] + " is a reference to " + traversal->carried + ", which stages receive",
                  "use " + traversal->carried + " directly");

  traversal->feed = find_feed(statements, traversal->loop, traversal->variable);
  if (traversal->feed.empty())
    return reject(loop.exprs[0].span,
                  "the value that the loop over PP_SPLIT " + traversal->list->name + " carries, " + traversal->carried +
                      ", is not computed in this method",
                  "compute it in a statement before the loop, so that later stages can receive it instead");
  if (!is_adjacent(statements, *traversal, findings) || !computes_one_tensor(statements, *traversal, findings))
    return std::nullopt;
  if (const Stmt* shared = declared_with_others(statements, traversal->feed, traversal->variable))
    return reject(shared->span, traversal->carried + " is declared together with other variables",
                  "declare it in a separate statement");

  if (const Stmt* early =
          early_end({statements.begin(), statements.begin() + static_cast<std::ptrdiff_t>(traversal->loop)},
                    /*in_loop=*/false))
    return reject(early->span, "this returns before the loop over PP_SPLIT " + traversal->list->name,
                  "return after the loop, from the value that it carries");
  for (size_t i = traversal->feed.back() + 1; i < traversal->loop; ++i)
    if (const Expr* reader = first_reader(statements[i], traversal->variable))
      return reject(reader->span,
                    traversal->carried + " is read before the loop over PP_SPLIT " + traversal->list->name +
                        ": stages after the first hold another value in it",
                    "read only its type, or compute this from the batch");

  for (size_t i = traversal->loop + 1; i < statements.size() && !traversal->cut; ++i)
    if (mentions(statements[i], traversal->variable)) traversal->cut = i;
  if (traversal->cut && statements[*traversal->cut].kind == Stmt::Kind::ret &&
      statements[*traversal->cut].exprs[0].kind == Expr::Kind::local)
    traversal->cut.reset();
  return traversal;
}

std::optional<Traversal> find_cut(const Function& method, const std::vector<StageReads>& reads,
                                  std::vector<Finding>& findings) {
  const std::vector<Stmt>& statements = method.body.statements;
  const auto reject = [&](SourceSpan where, std::string message, std::string advice) -> std::optional<Traversal> {
    findings.push_back({true, where, std::move(message), std::move(advice), {}});
    return std::nullopt;
  };
  std::optional<size_t> first, last;  // last statement of the first stage, first statement of the last stage
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
                    "assign the first stage's output to a local variable before using it");

  if (*last < *first) {
    const bool is_late = std::any_of(reads.begin(), reads.begin() + static_cast<std::ptrdiff_t>(*last),
                                     [](const StageReads& read) { return read.first.at != nullptr; });
    findings.push_back(is_late ? misplaced(reads[*first].first, true, "after the last stage's computation")
                               : misplaced(reads[*last].last, false, "before the first stage's computation"));
    return std::nullopt;
  }

  Traversal traversal;
  traversal.stack = reads[*first].first.marked;
  const Locals defined = definitions(statements[*first]);
  if (defined.empty())
    return reject(
        reads[*first].first.at->span,
        "the output of " + traversal.stack->name + " for the last pipeline stage is not assigned to a variable",
        "assign it to a local variable in a separate statement");
  traversal.carried = defined.begin()->name;
  traversal.variable = defined.begin()->variable;
  traversal.feed = find_feed(statements, *first + 1, traversal.variable);
  for (size_t i = 0; i < *first; ++i)
    if (reads[i].first.at && std::find(traversal.feed.begin(), traversal.feed.end(), i) == traversal.feed.end()) {
      const Locals extra = definitions(statements[i]);
      return reject(reads[i].first.at->span,
                    "the first pipeline stage computes " + (extra.empty() ? "another value" : listed(extra)) +
                        " in addition to " + traversal.carried + ", which it passes on",
                    "a stage passes on one tensor: combine both in " + traversal.carried);
    }
  if (!computes_one_tensor(statements, traversal, findings)) return std::nullopt;
  if (!is_adjacent(statements, traversal, findings)) return std::nullopt;
  if (const Stmt* shared = declared_with_others(statements, traversal.feed, traversal.variable))
    return reject(shared->span, traversal.carried + " is declared together with other variables",
                  "declare it in a separate statement");
  traversal.cut = *first + 1;
  return traversal;
}

}  // namespace modgen
