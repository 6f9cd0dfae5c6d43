#include "generator/pipeline.h"

#include <algorithm>
#include <set>

namespace modgen {
namespace {

bool mentions(const Expr& expr, const std::string& variable) {
  if (expr.kind == Expr::Kind::local && expr.name == variable) return true;
  return std::any_of(expr.operands.begin(), expr.operands.end(),
                     [&](const Expr& operand) { return mentions(operand, variable); });
}

bool is_assignment(const Expr& expr) {
  static const std::set<std::string> names = {"=", "+=", "-=", "*=", "/="};
  return expr.kind == Expr::Kind::op && names.contains(expr.name);
}

/// The local variable that `expr` is, is a member of or reaches into; null where there is none.
const Expr* local_in(const Expr& expr) {
  if (expr.kind == Expr::Kind::local) return &expr;
  const bool goes_on = expr.kind == Expr::Kind::field || expr.kind == Expr::Kind::method || expr.name == "[]";
  return goes_on && !expr.operands.empty() ? local_in(expr.operands[0]) : nullptr;
}

/// Locals that `expr` assigns, also in place ("x.add_(…)") or in a part ("x.first = …").
void add_assigned(const Expr& expr, std::set<std::string>& out) {
  const bool in_place = expr.kind == Expr::Kind::method && expr.name.ends_with("_") && !expr.name.ends_with("__");
  const bool counts = expr.kind == Expr::Kind::op && (expr.name == "++" || expr.name == "--");
  if ((is_assignment(expr) || in_place || counts) && !expr.operands.empty())
    if (const Expr* target = local_in(expr.operands[0])) out.insert(target->name);
  for (const Expr& operand : expr.operands) add_assigned(operand, out);
}

void add_assigned(const Stmt& statement, std::set<std::string>& out) {
  std::set<std::string> assigned, declared;
  for (const Expr& expr : statement.exprs) add_assigned(expr, assigned);
  for (const auto* body : {&statement.then_body, &statement.else_body}) {
    for (const Stmt& inner : *body) {
      add_assigned(inner, assigned);
      if (inner.kind == Stmt::Kind::declare) declared.insert(inner.names.begin(), inner.names.end());
    }
  }
  for (const std::string& name : declared) assigned.erase(name);
  out.insert(assigned.begin(), assigned.end());
}

/// What a statement gives to those after it.
std::set<std::string> definitions(const Stmt& statement) {
  std::set<std::string> names;
  add_assigned(statement, names);
  if (statement.kind == Stmt::Kind::declare) names.insert(statement.names.begin(), statement.names.end());
  return names;
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
          findings.push_back(
              {true,
               inner.exprs[0].span,
               "the walk over the PP_SPLIT list stands inside of another statement, where stages cannot be cut",
               "walk it in the method's outermost block",
               {}});
      find_nested(split_list, *body, findings);
    }
  }
}

/// Whether `expr` reads `variable` for more than what it has in common with what other stages hold in its place.
bool reads_value(const Expr& expr, const std::string& variable) {
  static const std::set<std::string> common = {"size",    "sizes",   "dim",     "dtype", "scalar_type",      "device",
                                               "options", "defined", "is_cuda", "numel", "is_floating_point"};
  if (expr.kind == Expr::Kind::local) return expr.name == variable;
  const bool asks = expr.kind == Expr::Kind::method && common.contains(expr.name) && !expr.operands.empty() &&
                    expr.operands[0].kind == Expr::Kind::local;
  return std::any_of(expr.operands.begin() + (asks ? 1 : 0), expr.operands.end(),
                     [&](const Expr& operand) { return reads_value(operand, variable); });
}

/// The first expression below `statement` that reads `variable`'s value.
const Expr* first_reader(const Stmt& statement, const std::string& variable) {
  for (const Expr& expr : statement.exprs)
    if (reads_value(expr, variable)) return &expr;
  for (const auto* body : {&statement.then_body, &statement.else_body})
    for (const Stmt& inner : *body)
      if (const Expr* found = first_reader(inner, variable)) return found;
  return nullptr;
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Statements before the loop that make the carried value, and those that serve nothing else.
std::vector<size_t> feeding(const std::vector<Stmt>& statements, size_t loop, const std::string& carried) {
  std::set<size_t> feed;
  for (size_t i = 0; i < loop; ++i)
    if (definitions(statements[i]).contains(carried) &&
        !(statements[i].kind == Stmt::Kind::declare && statements[i].exprs.empty()))
      feed.insert(i);
  if (feed.empty()) return {};
  for (bool grew = true; grew;) {
    grew = false;
    for (size_t i = 0; i < *feed.rbegin(); ++i) {
      if (feed.contains(i) || statements[i].kind != Stmt::Kind::declare || statements[i].exprs.empty()) continue;
      const auto names = definitions(statements[i]);
      bool used_in_feed = false, used_elsewhere = false;
      for (size_t j = i + 1; j < statements.size(); ++j)
        for (const std::string& name : names)
          if (mentions(statements[j], name)) (feed.contains(j) ? used_in_feed : used_elsewhere) = true;
      if (used_in_feed && !used_elsewhere) grew = feed.insert(i).second || grew;
    }
  }
  return {feed.begin(), feed.end()};
}

}  // namespace

bool mentions(const Stmt& statement, const std::string& variable) {
  if (std::any_of(statement.exprs.begin(), statement.exprs.end(),
                  [&](const Expr& expr) { return mentions(expr, variable); }))
    return true;
  for (const auto* body : {&statement.then_body, &statement.else_body})
    for (const Stmt& inner : *body)
      if (mentions(inner, variable)) return true;
  return false;
}

std::optional<Walk> find_walk(const FindSplitList& split_list, const Function& method, std::vector<Finding>& findings) {
  const std::vector<Stmt>& statements = method.body.statements;
  find_nested(split_list, statements, findings);
  std::optional<Walk> walk;
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
  const auto refuse = [&](SourceSpan where, std::string message, std::string advice) -> std::optional<Walk> {
    findings.push_back({true, where, std::move(message), std::move(advice), {}});
    return std::nullopt;
  };
  std::set<std::string> assigned;
  add_assigned(loop, assigned);
  for (const std::string& name : loop.names) assigned.erase(name);
  if (assigned.empty())
    return refuse(loop.exprs[0].span,
                  "the walk over PP_SPLIT " + walk->list->name + " carries no value from element to element",
                  "assign what an element returns to the variable that the next one reads");
  if (assigned.size() > 1)
    return refuse(loop.exprs[0].span,
                  "the walk over PP_SPLIT " + walk->list->name + " carries several values: " + listed(assigned),
                  "a stage hands on one tensor");
  walk->carried = *assigned.begin();

  walk->feed = feeding(statements, walk->loop, walk->carried);
  if (walk->feed.empty())
    return refuse(loop.exprs[0].span,
                  "the value that the walk over PP_SPLIT " + walk->list->name + " carries, " + walk->carried +
                      ", is not made in this method",
                  "make it in a statement before the loop, so that stages behind the first can receive it instead");
  for (size_t i = 1; i < walk->feed.size(); ++i)
    if (walk->feed[i] != walk->feed[i - 1] + 1)
      return refuse(statements[walk->feed[i]].span,
                    "what makes " + walk->carried + " for the first stage is interrupted by other statements",
                    "put the statements that make it next to each other");

  for (size_t i = walk->feed.back() + 1; i < walk->loop; ++i)
    if (const Expr* reader = first_reader(statements[i], walk->carried))
      return refuse(reader->span,
                    walk->carried + " is read before the walk over PP_SPLIT " + walk->list->name +
                        ": stages behind the first hold another value in it",
                    "ask it for its sizes or type alone, or compute this from the batch");

  for (size_t i = walk->loop + 1; i < statements.size() && !walk->cut; ++i)
    if (mentions(statements[i], walk->carried)) walk->cut = i;
  if (walk->cut && statements[*walk->cut].kind == Stmt::Kind::ret &&
      statements[*walk->cut].exprs[0].kind == Expr::Kind::local)
    walk->cut.reset();
  return walk;
}

}  // namespace modgen
